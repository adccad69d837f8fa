"""Runs the skinny K1's machine code in the emulator; a process of its own: ``skinny_worker.py ARCH``.

Reads a JSON list of cases from standard input and writes a JSON list of results. A case is the arguments of
:func:`run_case`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

CHECKS = ("memcheck", "initcheck", "counts", "waits")


def _inputs(case: dict[str, Any], plan: Any, exact: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs by name with eps, and the outputs that are due where they are exact."""
    import oracle

    m, seed = case["m"], case.get("seed", 0)
    if exact:
        data = oracle.exact.k1_case(m, plan.hc, plan.hs, plan.live, plan.n_pad, fold_w=True, seed=seed)
        residual = data.combine.residual if plan.combine else data.combine.r2.reshape(m, -1)
        inputs = {
            "residual": residual,
            "block_output": data.combine.block_output,
            "injection": data.combine.injection,
            "weight": data.weight,
            "norm_weight": data.norm_weight,
            "eps": data.eps,
        }
        return inputs, {"r2": data.combine.r2.reshape(m, -1), "rrms": data.rrms, "packed": data.packed}
    rank = plan.live - plan.hc
    kind = case.get("kind", "normal")
    made = oracle.inputs.make(m, plan.hc, plan.hs, rank, plan.n_pad, kind=kind, seed=seed)
    weight = made.folded.clone()
    if case.get("poisoned_padding"):
        weight[plan.live :] = float("nan")
    inputs = {
        "residual": made.residual,
        "block_output": made.block_output,
        "injection": made.injection,
        "weight": weight,
        "norm_weight": made.norm_weight,
        "eps": 1e-6,
    }
    return inputs, {}


def _padded(tensor: Any, extra: int) -> Any:
    """A copy of a matrix whose rows lie `extra` elements further apart, NaN in between."""
    import torch

    wide = torch.full((tensor.shape[0], tensor.shape[1] + extra), float("nan"), dtype=tensor.dtype)
    return wide[:, : tensor.shape[1]].copy_(tensor)


def run_case(case: dict[str, Any], exact: bool) -> dict[str, Any]:
    """`rounds` launches over one counter set that starts at `start`, each compared with the oracle.

    `case`: m, seed, kind, padding (of the rows of residual and block_output), poisoned_padding (NaN in the
    weight rows from `live` on), rounds, start, and the fields of the plan.
    """
    import torch

    import oracle
    from hcgr import dispatch
    from hcgr.plan.skinny import SLOT_ELEMENTS, SkinnyPlan
    from validation.emulator import AddressSpace, emulate

    plan = SkinnyPlan(**{k: v for k, v in case.items() if k in SkinnyPlan.__dataclass_fields__})
    m, hc, hs, n_pad = case["m"], plan.hc, plan.hs, plan.n_pad
    inputs, due = _inputs(case, plan, exact)
    padding = case.get("padding", 0)
    residual = _padded(inputs["residual"], padding)
    block_output = _padded(inputs["block_output"], padding)
    injection = inputs["injection"]
    start = case.get("start", 0)
    slots, live_slots = plan.counter_slots(m) * SLOT_ELEMENTS, slice(None, None, SLOT_ELEMENTS)
    counters = torch.full((slots,), 0x5A5A5A5A, dtype=torch.int32)
    counters[live_slots] = start
    rounds = case.get("rounds", 1)
    results = []
    for _ in range(rounds):
        outputs = {
            "r2": oracle.guards.Guarded((m, hc * hs), torch.bfloat16),
            "rrms": oracle.guards.Guarded((m, hc), torch.float32),
            "packed": oracle.guards.Guarded((m, n_pad), torch.bfloat16),
        }
        # Never written as far as initcheck knows: a workgroup that reduces too early reads such bytes.
        space = AddressSpace()
        partials = space.empty((plan.partial_elements(m),), torch.float32, "partials")
        got = {name: guarded.tensor for name, guarded in outputs.items()}
        tensors = {
            "residual": residual,
            "block_output": block_output,
            "injection": injection,
            "weight": inputs["weight"],
            **got,
            "partials": partials,
            "counters": counters,
        }
        strides = (residual.stride(0), block_output.stride(0), injection.stride(0))
        with emulate(checks=CHECKS, space=space) as session:
            scalars = (m, *strides, inputs["eps"], plan.token_groups(m))
            dispatch.launch("hcgr.kernels.k1_skinny", plan, tensors, scalars)
        if plan.combine:
            r2 = got["r2"]
        else:
            del outputs["r2"]
            r2 = residual
        if exact:
            compared = [oracle.compare_exact(n, got[n], due[n]) for n in outputs]
        else:
            stages = oracle.check_k1(
                r2,
                got["rrms"],
                got["packed"],
                residual,
                block_output if plan.combine else None,
                injection if plan.combine else None,
                inputs["norm_weight"],
                inputs["weight"],
                hc=hc,
                eps=inputs["eps"],
                fold_w=True,
                live=plan.live,
            )
            compared = list(stages.stages.values())
        launch = session.launches[0]
        results.append(
            {
                "launches": len(session.launches),
                "findings": [str(finding) for finding in session.findings],
                "failed": [str(c) for c in compared if not c.passed],
                "compared": [str(c) for c in compared],
                "unwritten": {name: len(guarded.unwritten()) for name, guarded in outputs.items()},
                "breaches": [str(b) for g in outputs.values() for b in g.breaches()],
                "r2_untouched": plan.combine or len(oracle.guards.unwritten(got["r2"])) == got["r2"].numel(),
                "arguments": launch.counts["arguments"],
                "mnemonics": dict(launch.mnemonics),
            }
        )
    expected = torch.full((slots,), 0x5A5A5A5A, dtype=torch.int32)
    final = (start + rounds * hc) & 0xFFFFFFFF
    expected[live_slots] = final - (1 << 32) if final >> 31 else final
    return {"rounds": results, "counters": bool(torch.equal(counters, expected))}


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([[run_case(case, exact=exact) for exact in (True, False)] for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
