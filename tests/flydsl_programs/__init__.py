"""FlyDSL programs of many kinds that the emulator must run unchanged.

Each module holds ordinary FlyDSL code and ``run(generator) -> list[Case]``, which builds CPU tensors,
calls the program and judges the result against PyTorch. They know nothing of the emulator: on a machine
with an AMD GPU the same code runs there once the tensors are moved to it.
"""

PROGRAMS: tuple[str, ...] = (
    "vector_add",
    "rms_norm",
    "softmax",
    "transpose",
    "tiled_copy",
    "gemm_tiled",
    "gemm_8bit",
    "gemm_split_k",
    "mfma_builtins",
    "atomics",
    "warp_collectives",
    "gather_scatter",
    "buffer_clamp",
    "async_copy",
    "block_collectives",
    "register_array",
)
"""Module names, in the order in which the worker runs them."""
