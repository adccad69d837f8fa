"""Runs K2's machine code in the emulator; a script in a process of its own: ``k2_worker.py ARCH``.

Reads a JSON list of cases from standard input and writes a JSON list of results. A case is the arguments of
:func:`run_case`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

CHECKS = ("memcheck", "initcheck", "counts", "waits")


def _inputs(case: dict[str, Any], exact: bool) -> dict[str, Any]:
    """lora (a view with row stride n_pad), r2, rrms, norm_weight, w_up, and x if it is due exactly."""
    import torch

    import oracle

    m, hc, hs, r, n_pad = (case[key] for key in ("m", "hc", "hs", "rank", "n_pad"))
    if exact:
        data = oracle.exact.k2_case(m, hc, hs, r, n_pad=n_pad, seed=case.get("seed", 0))
        inputs = {name: getattr(data, name) for name in ("lora", "r2", "rrms", "norm_weight", "w_up", "x")}
        if case.get("full_norm"):
            inputs["norm_weight"] = inputs["norm_weight"].repeat(hc)
        if case.get("norm_f32"):
            inputs["norm_weight"] = inputs["norm_weight"].float()
        return inputs
    made = oracle.inputs.make(
        m,
        hc,
        hs,
        r,
        n_pad,
        kind=case.get("kind", "normal"),
        seed=case.get("seed", 0),
        full_width_norm=case.get("full_norm", False),
        norm_dtype=torch.float32 if case.get("norm_f32") else torch.bfloat16,
    )
    rng = torch.Generator().manual_seed(case.get("seed", 0) + 1)
    # What lies between the rows of lora must not matter.
    packed = torch.full((m, n_pad), float("nan"), dtype=torch.bfloat16)
    packed[:, :r] = (torch.randn(m, r, generator=rng) * hc).to(torch.bfloat16)
    r2 = made.residual.view(m, hc, hs)
    rrms = oracle.reference.rrms(r2, 1e-6)
    return {"lora": packed[:, :r], "r2": r2, "rrms": rrms, "norm_weight": made.norm_weight, "w_up": made.w_up}


def run_case(case: dict[str, Any], exact: bool) -> dict[str, Any]:
    """One launch on exact or random inputs, compared with the oracle.

    `case`: m, n_pad, r2_padding (extra row stride), seed, kind, and the fields of the plan.
    """
    import torch

    import oracle
    from hcgr import arch as arch_table
    from hcgr import dispatch
    from hcgr.plan.k2 import K2Plan
    from validation.emulator import emulate

    fields = {k: v for k, v in case.items() if k in K2Plan.__dataclass_fields__}
    plan = K2Plan(**fields)
    m, hc, hs = case["m"], plan.hc, plan.hs
    inputs = _inputs(case, exact)
    width = hc * hs
    wide = torch.full((m, width + case.get("r2_padding", 0)), float("nan"), dtype=torch.bfloat16)
    r2 = wide[:, :width].copy_(inputs["r2"].reshape(m, width))
    lora, h = inputs["lora"], None
    if plan.activated:
        h = oracle.reference.silu(lora, hc)
        held = torch.full((m, case["n_pad"]), float("nan"), dtype=torch.bfloat16)
        h = held[:, : plan.rank].copy_(h)
    guarded = oracle.guards.Guarded((m, hs), torch.bfloat16)
    tensors = {
        "lora": lora if h is None else h,
        "r2": r2,
        "rrms": inputs["rrms"].contiguous(),
        "norm_weight": inputs["norm_weight"],
        "w_up": inputs["w_up"],
        "x": guarded.tensor,
    }
    scalars = (m, case["n_pad"], wide.stride(0), plan.row_tiles(m))
    with emulate(checks=CHECKS) as session:
        dispatch.launch("hcgr.kernels.k2_up_gate_mix", plan, tensors, scalars)
    if exact:
        compared = oracle.compare_exact("x", guarded.tensor, inputs["x"])
    else:
        others = (r2.reshape(m, hc, hs), inputs["rrms"], inputs["norm_weight"], inputs["w_up"])
        compared = oracle.check_k2(guarded.tensor, lora, *others, hc=hc, h=h)
    launch = session.launches[0]
    counts = launch.counts
    return {
        "launches": len(session.launches),
        "findings": [str(finding) for finding in session.findings],
        "passed": compared.passed,
        "compared": str(compared),
        "unwritten": len(guarded.unwritten()),
        "breaches": [str(breach) for breach in guarded.breaches()],
        "mfmas": sum(n for name, n in launch.mnemonics.items() if name.startswith("v_mfma")),
        "planned_mfmas": plan.mfmas(m, arch_table.get(launch.arch)),
        "lds_conflict_cycles": counts["lds_conflict_cycles"],
        "arguments": counts["arguments"],
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([[run_case(case, exact=exact) for exact in (True, False)] for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
