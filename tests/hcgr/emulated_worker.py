"""Runs COMBINE's machine code in the emulator; a script in a process of its own: ``emulated_worker.py ARCH``.

Writes a JSON list, a pair a case (exact inputs, random inputs): memcheck's findings and the elements that are
wrong against float64.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

#: (tokens, hc, hs, rows of a workgroup, padding of the row strides of residual, block_output and injection)
CASES: list[tuple[int, int, int, int, tuple[int, int, int]]] = [
    (1, 4, 2560, 1, (0, 0, 0)),
    (5, 4, 512, 4, (0, 0, 0)),
    (5, 4, 512, 4, (8, 24, 333)),
    (3, 2, 1024, 2, (2048, 8, 1)),
    (2, 8, 8192, 1, (0, 0, 328)),
    (1, 2, 40960, 4, (0, 0, 0)),
]


def run_case(tokens: int, hc: int, hs: int, rows: int, padding: tuple[int, int, int], exact: bool) -> Any:
    """One launch with a chosen plan. `exact`: small integers and iw = 1, whose result bf16 holds exactly."""
    import torch

    from hcgr import dispatch
    from hcgr.plan import CombinePlan
    from tests.hcgr.standin import make_inputs
    from validation.emulator import emulate

    inputs = make_inputs(tokens, hc, hs)
    if exact:
        inputs["residual"] = (inputs["residual"] * 16).round().clamp(-64, 64)
        inputs["block_output"] = (inputs["block_output"] * 16).round().clamp(-64, 64)
        inputs["injection"] = torch.zeros_like(inputs["injection"])
    tensors: dict[str, torch.Tensor] = {}
    for name, extra in zip(("residual", "block_output", "injection"), padding, strict=True):
        width = inputs[name].shape[1]
        wide = torch.full((tokens, width + extra), float("nan"), dtype=torch.bfloat16)
        tensors[name] = wide[:, :width].copy_(inputs[name])
    strides = [tensor.stride(0) for tensor in tensors.values()]
    r2 = tensors["r2"] = torch.full((tokens, hc * hs), float("nan"), dtype=torch.bfloat16)
    plan = CombinePlan(hc, hs, rows)
    with emulate() as session:
        dispatch.launch("hcgr.kernels.combine", plan, tensors, (tokens, *strides, plan.workgroups(tokens)))

    r, y, injection = (inputs[n].double() for n in ("residual", "block_output", "injection"))
    added = (y[:, None, :] * 2 * torch.sigmoid(injection / hc)[:, :, None]).reshape(tokens, hc * hs)
    expected = r + added
    # Half an ulp of bf16 is at most 2**-8 of the value, of f32 2**-24. The fused sum rounds once; iw takes
    # about eight roundings, and the rounding of the exponent weighs |inj / HC| * log2(e) times ln 2, twice.
    steps = 8 + 2 * (injection / hc).abs().max()
    f32_error = 2.0**-24 * (expected.abs() + steps * added.abs())
    bound = 2.0**-8 * (expected.abs() + f32_error) + f32_error
    error = (r2.double() - expected).abs()
    return {
        "launches": len(session.launches),
        "findings": [str(finding) for launch in session.launches for finding in launch.findings],
        "different": int((r2.double() != expected).sum()) if exact else None,
        "over_bound": int((~(error <= bound)).sum()),
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([[run_case(*case, exact=exact) for exact in (True, False)] for case in CASES], sys.stdout)


if __name__ == "__main__":
    main()
