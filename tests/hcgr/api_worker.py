"""Runs the public entry points in the emulator; a process of its own: ``api_worker.py ARCH``.

Reads a JSON list of cases from standard input and writes a JSON list of results. A case names an entry point
and a shape; see :func:`run_case`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

DEFAULTS = {"m": 1, "hc": 4, "hs": 512, "r": 64, "n_pad": 80, "fold": True, "inject": True, "merged": True, "seed": 0}


def inputs_of(case: dict[str, Any]) -> Any:
    """Random inputs of a case; the injection is a view of row stride n_pad."""
    import torch

    from oracle import inputs

    dtype = torch.float32 if case.get("norm_f32") else torch.bfloat16
    full = case.get("norm_full", False)
    return inputs.make(
        case["m"], case["hc"], case["hs"], case["r"], case["n_pad"], seed=case["seed"], full_width_norm=full,
        norm_dtype=dtype,
    )  # fmt: skip


def padded(tensor: Any, extra: int) -> Any:
    """A copy whose rows lie `extra` elements further apart, NaN in between."""
    import torch

    wide = torch.full((tensor.shape[0], tensor.shape[1] + extra), float("nan"), dtype=tensor.dtype)
    return wide[:, : tensor.shape[1]].copy_(tensor)


def weight_of(case: dict[str, Any], made: Any) -> Any:
    """The merged weight of a case, without inject rows where it has none."""
    import oracle

    if case["inject"]:
        return made.folded if case["fold"] else made.merged
    merged = oracle.reference.merge_weight(made.w_down, None, case["n_pad"])
    return oracle.reference.fold_weight(merged, made.norm_weight, case["hc"]) if case["fold"] else merged


def two_stage(case: dict[str, Any], made: Any) -> list[Any]:
    """combine_and_mix or mix once, end to end."""
    import hcgr
    import oracle

    combine = case["entry"] == "combine_and_mix"
    residual = padded(made.residual, case.get("residual_pad", 0))
    pending = (made.block_output, made.injection) if combine else ()
    weight = weight_of(case, made)
    w_inject = made.w_inject if case["inject"] else None
    function: Callable[..., Any] = getattr(hcgr, f"flydsl_gr_two_stage_{case['entry']}")
    r2, x, inj_next = function(
        residual, *pending, made.norm_weight, made.w_down, made.w_up, w_inject, case["hc"], 1e-6,
        w_down_merged=weight if case["merged"] else None, fold_w=case["fold"],
    )  # fmt: skip
    if not case["merged"]:
        weight = oracle.reference.merge_weight(made.w_down, w_inject, -(-(case["r"] + case["hc"]) // 64) * 64)
        if case["fold"]:
            weight = oracle.reference.fold_weight(weight, made.norm_weight, case["hc"])
    assert r2 is residual if not combine else r2.is_contiguous()
    assert (inj_next is None) is not case["inject"]
    if inj_next is not None:
        assert inj_next.stride() == (weight.shape[0], 1) or case["m"] == 1
    common = {"hc": case["hc"], "eps": 1e-6, "fold_w": case["fold"]}
    if combine:
        compared = oracle.check_combine_and_mix(
            r2, x, inj_next, residual, *pending, made.norm_weight, weight, made.w_up, **common
        )
    else:
        compared = oracle.check_mix(x, inj_next, residual, made.norm_weight, weight, made.w_up, **common)
    return list(compared.stages.values())


def k1(case: dict[str, Any], made: Any) -> list[Any]:
    """The direct K1 with caller-owned buffers."""
    import torch

    import hcgr
    import oracle

    m, hc, hs = case["m"], case["hc"], case["hs"]
    guarded = {
        "r2_out": oracle.guards.Guarded((m, hc * hs), torch.bfloat16),
        "out": oracle.guards.Guarded((m, case["n_pad"]), torch.bfloat16),
        "rrms_out": oracle.guards.Guarded((m, hc), torch.float32),
    }
    buffers = {name: g.tensor for name, g in guarded.items()}
    weight = weight_of(case, made)
    options = {name: case[name] for name in ("split_k", "stages", "gemm_pad", "block_m") if name in case}
    r2, packed = hcgr.flydsl_k1_combine_norm_down(
        made.residual, made.block_output, made.injection, made.norm_weight, weight, case["r"], hc, 1e-6,
        fold_w=case["fold"], **buffers, **options,
    )  # fmt: skip
    assert r2 is buffers["r2_out"]
    assert packed is buffers["out"]
    for g in guarded.values():
        assert not len(g.unwritten())
        assert not g.breaches()
    compared = oracle.check_k1(
        r2, buffers["rrms_out"], packed, made.residual, made.block_output, made.injection, made.norm_weight,
        weight, hc=hc, eps=1e-6, fold_w=case["fold"], live=case["r"] + hc if case["inject"] else case["r"],
        splits=case.get("splits", 16),
    )  # fmt: skip
    return list(compared.stages.values())


def k2(case: dict[str, Any], made: Any) -> list[Any]:
    """The direct K2 on a view of packed."""
    import torch

    import hcgr
    import oracle

    m, hc, hs, r = case["m"], case["hc"], case["hs"], case["r"]
    rng = torch.Generator().manual_seed(case["seed"] + 1)
    packed = torch.full((m, case["n_pad"]), float("nan"), dtype=torch.bfloat16)
    packed[:, :r] = (torch.randn(m, r, generator=rng) * hc).to(torch.bfloat16)
    rrms = oracle.reference.rrms(made.residual.view(m, hc, hs), 1e-6)
    x = oracle.guards.Guarded((m, hs), torch.bfloat16)
    arguments = (packed[:, :r], made.residual, rrms, made.norm_weight, made.w_up)
    options = {"block_m": case["block_m"]} if "block_m" in case else {}
    assert hcgr.flydsl_up_gate_mix_norm(*arguments, hc, x.tensor, **options) is x.tensor
    assert not len(x.unwritten())
    assert not x.breaches()
    return [oracle.check_k2(x.tensor, *arguments, hc=hc)]


def layers(case: dict[str, Any], made: Any) -> list[Any]:
    """Three layers in a row, each fed the strided inj_next of the one before."""
    import hcgr
    import oracle

    weight, compared = weight_of(case, made), []
    weights = (made.norm_weight, made.w_down, made.w_up, made.w_inject, case["hc"], 1e-6, weight, case["fold"])
    residual, x, injection = hcgr.flydsl_gr_two_stage_mix(made.residual, *weights)
    for _ in range(3):
        r2, y, inj_next = hcgr.flydsl_gr_two_stage_combine_and_mix(residual, x, injection, *weights)
        done = oracle.check_combine_and_mix(
            r2, y, inj_next, residual, x, injection, made.norm_weight, weight, made.w_up, hc=case["hc"],
            eps=1e-6, fold_w=case["fold"],
        )  # fmt: skip
        compared += done.stages.values()
        residual, x, injection = r2, y, inj_next
    return compared


ENTRIES: dict[str, Callable[[dict[str, Any], Any], list[Any]]] = {
    "combine_and_mix": two_stage,
    "mix": two_stage,
    "k1": k1,
    "k2": k2,
    "layers": layers,
}


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """One case: entry, and of DEFAULTS what differs; optional norm_f32, norm_full, residual_pad and, for K1 and
    K2, split_k, stages, gemm_pad, block_m."""
    from hcgr import dispatch
    from validation.emulator import emulate

    case = {**DEFAULTS, **case}
    kernels: list[str] = []
    with (
        emulate(checks=("memcheck", "initcheck", "waits")) as session,
        dispatch.observe(lambda launch: kernels.append(launch.kernel.rpartition(".")[2])),
    ):
        compared = ENTRIES[case["entry"]](case, inputs_of(case))
    return {
        "kernels": kernels,
        "findings": [str(finding) for finding in session.findings],
        "failed": [str(comparison) for comparison in compared if not comparison.passed],
        "compared": len(compared),
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([run_case(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
