"""Triton programs of many kinds, compiled for a GPU that is not there and run in the emulator.

Each module holds ordinary Triton kernels and ``run(generator, device) -> list[Case]``, which builds CPU tensors,
launches the kernels on the device of `driver` and judges the results against PyTorch.
"""

PROGRAMS: tuple[str, ...] = (
    "elementwise",
    "integers",
    "conversions",
    "mathematics",
    "random_numbers",
    "reductions",
    "scans",
    "sorting",
    "norms",
    "movement",
    "large_addresses",
    "calls",
    "atomics",
    "locks",
    "gemm",
    "gemm_split_k",
    "gemm_scaled",
    "attention",
    "mixture_of_experts",
)
"""Module names, in the order in which the worker runs them."""
