"""Runs K1's machine code in the emulator; a script in a process of its own: ``k1_worker.py ARCH``.

Reads a JSON list of cases from standard input and writes a JSON list of what happened. A case names a path and
a shape; see :func:`run_case`. Inputs have exactly M rows and outputs are poisoned, so that an unguarded row is
an access outside its tensor, and an unwritten element is seen.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import Any


def inputs_of(case: dict[str, Any]) -> Any:
    """(residual, block_output, injection, norm_weight, weight, eps) of a case, and the exact answer if any."""
    import torch

    from oracle import exact, inputs

    m, hc, hs, r, n_pad = (case[name] for name in ("m", "hc", "hs", "r", "n_pad"))
    if case.get("exact"):
        made = exact.k1_case(m, hc, hs, r + hc, n_pad, fold_w=case["fold"], eps=case.get("eps", 0.0))
        c = made.combine
        values = (c.residual, c.block_output, c.injection, made.norm_weight, made.weight, made.eps)
        return values, (c.r2.reshape(m, hc * hs), made.rrms, made.packed)
    dtype = torch.float32 if case.get("norm_f32") else torch.bfloat16
    full = case.get("norm_full", False)
    kind = case.get("kind", "normal")
    drawn = inputs.make(m, hc, hs, r, n_pad, kind=kind, seed=3, full_width_norm=full, norm_dtype=dtype)
    weight = drawn.folded if case["fold"] else drawn.merged
    values = (drawn.residual, drawn.block_output, drawn.injection, drawn.norm_weight, weight, 1e-6)
    return values, None


def launches_of(case: dict[str, Any], t: dict[str, Any], eps: float, arch: str) -> Any:
    """The plan of a case, and its launches: (kernel, plan, tensors, scalars)."""
    from hcgr import arch as arch_table
    from hcgr.plan import k1, k1_limits, k1_resident

    arch_entry = arch_table.get(arch)
    m, hc, hs, n_pad = (case[name] for name in ("m", "hc", "hs", "n_pad"))
    combine, live = case.get("combine", True), case["r"] + hc
    norm = {"norm_f32": case.get("norm_f32", False), "norm_full": case.get("norm_full", False)}
    dma16 = 16 if 16 in arch_entry.lds_dma_bytes else 0
    tile = {"mfma_k": arch_entry.mfma_k, "dma_bytes": dma16, **case.get("plan", {})}
    y, inj = (t["block_output"], t["injection"]) if combine else (t["residual"], t["residual"])
    r2 = t["r2"] if combine else t["residual"]
    strides = (t["residual"].stride(0), y.stride(0), inj.stride(0))
    sequence: list[Any] = []
    plan: Any
    if case["path"] == "fused":
        plan = k1.K1FusedPlan(hc, hs, n_pad, live, combine, **tile)
        problems = k1_limits.fused_problems(plan, arch_entry)
    elif case["path"] == "split_k":
        plan = k1.K1SplitKPlan(hc, hs, n_pad, live, **tile, **norm)
        problems = k1_limits.split_k_problems(plan, arch_entry)
    elif case["path"] == "resident":
        del tile["dma_bytes"]
        plan = k1_resident.K1ResidentPlan(hc, hs, n_pad, live, combine, **tile, **norm)
        problems = k1_limits.resident_problems(plan, arch_entry)
    else:
        tile["dma_bytes"] = tile["dma_bytes"] or 4
        plan = k1.K1DecoupledPlan(hc, hs, n_pad, live, case["fold"], **tile)
        problems = k1_limits.decoupled_problems(plan, arch_entry)
    broken = [str(problem) for problem in problems]
    if broken:
        raise ValueError(f"{plan}: {broken}")
    space = t["space"]
    work = {name: space.empty(shape, dtype, name) for name, (shape, dtype) in k1_limits.k1_workspace(plan, m).items()}
    spare = t["rrms"]
    out = work.get("partials", t["packed"])
    if case["path"] == "fused":
        tensors = {
            "residual": t["residual"], "block_output": y, "injection": inj, "weight": t["weight"], "r2": r2,
            "rrms": t["rrms"], "out": out, "squares": work.get("squares", spare),
        }  # fmt: skip
        sequence.append(("k1_fused", plan, tensors, (m, *strides, eps, plan.workgroups(m))))
    elif case["path"] == "resident":
        tensors = {
            "residual": t["residual"], "block_output": y, "injection": inj, "norm_weight": t["norm_weight"],
            "weight": t["weight"], "r2": r2, "rrms": t["rrms"], "out": out,
        }  # fmt: skip
        sequence.append(("k1_resident", plan, tensors, (m, *strides, eps, plan.workgroups(m))))
    else:
        first = k1_limits.norm_plan(plan, combine, **norm)
        tensors = {
            "residual": t["residual"], "block_output": y, "injection": inj, "norm_weight": t["norm_weight"],
            "r2": r2, "rrms": t["rrms"], "xn": work.get("xn", r2),
        }  # fmt: skip
        sequence.append(("k1_combine_norm", first, tensors, (m, *strides, eps, first.workgroups(m))))
        if case["path"] == "split_k":
            tensors = {
                "r2": r2, "rrms": t["rrms"], "norm_weight": t["norm_weight"], "weight": t["weight"], "out": out
            }  # fmt: skip
            sequence.append(("k1_split_k", plan, tensors, (m, r2.stride(0), plan.workgroups(m))))
        else:
            rows = work.get("xn", r2)
            tensors = {"rows": rows, "rrms": t["rrms"], "weight": t["weight"], "packed": t["packed"]}
            sequence.append(("k1_decoupled", plan, tensors, (m, rows.stride(0), plan.workgroups(m))))
    last = k1_limits.reduce_plan(plan)
    if last is not None:
        tensors = {
            "partials": work["partials"], "squares": work.get("squares", spare), "rrms": t["rrms"],
            "packed": t["packed"],
        }  # fmt: skip
        sequence.append(("k1_reduce", last, tensors, (m, eps, last.workgroups(m))))
    return plan, work, sequence


def run_case(case: dict[str, Any], arch: str) -> dict[str, Any]:
    """One K1 call.

    Keys of a case: path (fused, split_k, resident, decoupled), m, hc, hs, r, n_pad, fold; optional combine, exact, eps,
    kind, norm_f32, norm_full, residual_pad and y_pad (extra row stride), plan (fields of the plan), checks
    (more than memcheck, initcheck and counts), and before: rows in front of the m that are checked. Those are
    neither filled nor run, so that tensors of many GiB cost nothing.
    """
    import torch

    import oracle
    from hcgr import dispatch
    from oracle import guards
    from validation.emulator import AddressSpace, emulate

    m, hc, hs, r, n_pad = (case[name] for name in ("m", "hc", "hs", "r", "n_pad"))
    before = case.get("before", 0)
    total = m + before
    values, answer = inputs_of(case)
    residual, block_output, injection, norm_weight, weight, eps = values
    space = AddressSpace()

    def put(name: str, value: torch.Tensor, extra: int = 0) -> torch.Tensor:
        # The last row ends where the allocation does: an access past it is outside.
        width = value.shape[-1]
        size = (total - 1) * (width + extra) + width
        flat = space.empty((size,), value.dtype, name, initialised=True)
        view = flat.as_strided((total, width), (width + extra, 1))
        flat[(total - m) * (width + extra) :].fill_(float("nan"))
        view[before:].copy_(value)
        return view

    t: dict[str, Any] = {
        "space": space,
        "residual": put("residual", residual, case.get("residual_pad", 0)),
        "block_output": put("block_output", block_output, case.get("y_pad", 0)),
        "injection": put("injection", injection, n_pad - hc),
        "norm_weight": space.empty(norm_weight.shape, norm_weight.dtype, "norm_weight", initialised=True),
        "weight": space.empty(weight.shape, weight.dtype, "weight", initialised=True),
        "r2": space.empty((total, hc * hs), torch.bfloat16, "r2"),
        "rrms": space.empty((total, hc), torch.float32, "rrms"),
        "packed": space.empty((total, n_pad), torch.bfloat16, "packed"),
    }
    t["norm_weight"].copy_(norm_weight)
    t["weight"].copy_(weight)
    outputs = [name for name in ("r2", "rrms", "packed") if name != "r2" or case.get("combine", True)]
    for name in outputs:
        guards.poison(t[name][before:])
    plan, work, sequence = launches_of({**case, "m": total}, t, eps, arch)
    for buffer in work.values() if not before else ():
        guards.poison(buffer)
    # A reduce workgroup covers rows in front, whose partials nobody wrote.
    checks = ("memcheck", "counts", "waits", *case.get("checks", ()), *(() if before else ("initcheck",)))
    first = {
        "k1_combine_norm": before,
        "k1_reduce": before * (n_pad // 8) // 256,
    }

    def chosen(kernel: str, grid: Any) -> Any:
        if not before:
            return None
        start = next((n for name, n in first.items() if f"hcgr_{name}_" in kernel), None)
        if start is None:
            tile = plan.tile if hasattr(plan, "tile") else plan
            start = before // tile.rows * (grid[0] // -(-total // tile.rows))
        return [(x, 0, 0) for x in range(start, grid[0])]

    with emulate(checks=checks, space=space, workgroups=chosen) as session:
        for kernel, launch_plan, tensors, scalars in sequence:
            dispatch.launch(f"hcgr.kernels.{kernel}", launch_plan, tensors, scalars)
    combine = case.get("combine", True)
    t = {name: value[before:] if name != "space" and value.shape[0] == total else value for name, value in t.items()}
    stored = t["r2"] if combine else t["residual"]
    compared = oracle.check_k1(
        stored, t["rrms"], t["packed"], t["residual"], t["block_output"] if combine else None,
        t["injection"] if combine else None, t["norm_weight"], t["weight"], hc=hc, eps=eps, fold_w=case["fold"],
        live=r + hc, splits=getattr(plan, "splits", 1), exact_sum=bool(answer),
    )  # fmt: skip
    different = None
    if answer is not None:
        got = (stored, t["rrms"], t["packed"])
        different = [int((a != b).sum()) for a, b in zip(got, answer, strict=True)]
    gemm = next(launch for launch in session.launches if any("mfma" in name for name in launch.mnemonics))
    tile = plan.tile if hasattr(plan, "tile") else plan
    expected = tile.mfmas(total) - tile.mfmas(before // tile.rows * tile.rows)
    return {
        "plan": repr(asdict(plan)),
        "kernels": [launch.kernel for launch in session.launches],
        "findings": [str(finding) for finding in session.findings],
        "unwritten": {name: len(guards.unwritten(t[name])) for name in outputs},
        "passed": compared.passed,
        "report": str(compared),
        "different": different,
        "pad_columns": int((t["packed"][:, r + hc :] != 0).sum()),
        "mfma": [sum(n for name, n in gemm.mnemonics.items() if "mfma" in name), expected],
        "lines": [launch.counts["arguments"] for launch in session.launches],
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([run_case(case, arch) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
