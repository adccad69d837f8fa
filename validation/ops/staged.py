"""The oracle's verdict on K1 and K2, each on the tensors that the launches themselves read and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hcgr.dispatch import Launch
from oracle import check_k1, check_k2
from validation.kit import comparison_of, simple_check, stage_records
from validation.operation import JsonDict
from validation.ops.chosen import Recorder

#: Kernel modules that begin a K1, by whether packed is theirs to write (else a reduce kernel writes it).
_K1_KERNELS = ("k1_skinny", "k1_fused", "k1_split_k", "k1_resident", "k1_decoupled")


@dataclass(frozen=True)
class K1Tensors:
    """What one K1 call read and wrote, as its launches were given it."""

    residual: torch.Tensor
    weight: torch.Tensor
    r2: torch.Tensor
    rrms: torch.Tensor
    packed: torch.Tensor
    splits: int


def _written(launches: Sequence[Launch], name: str) -> torch.Tensor:
    """The tensor called ``name`` of the last launch that has one."""
    for launch in reversed(launches):
        if name in launch.tensors:
            return launch.tensors[name]
    kernels = ", ".join(launch.kernel for launch in launches)
    raise LookupError(f"no launch has a tensor {name!r} (launched: {kernels})")


def k1_calls(recorder: Recorder) -> list[K1Tensors]:
    """The K1 calls among the recorded launches, in order.

    Raises:
        LookupError: if a K1 has no main kernel that this module knows.
    """
    calls: list[K1Tensors] = []
    pending: list[Launch] = []
    for launch in [*recorder.launches, None]:
        kernel = "" if launch is None else launch.kernel.rpartition(".")[2]
        starts = kernel in ("k1_skinny", "k1_fused", "k1_resident", "k1_combine_norm")
        if pending and (launch is None or starts or not kernel.startswith("k1_")):
            calls.append(_k1_tensors(pending))
            pending = []
        if launch is not None and kernel.startswith("k1_"):
            pending.append(launch)
    return calls


def _k1_tensors(launches: Sequence[Launch]) -> K1Tensors:
    main = [launch for launch in launches if launch.kernel.rpartition(".")[2] in _K1_KERNELS]
    if len(main) != 1:
        kernels = ", ".join(launch.kernel for launch in launches)
        raise LookupError(f"a K1 must have one of {', '.join(_K1_KERNELS)} (launched: {kernels})")
    plan = main[0].plan
    packed = next((launch.tensors["packed"] for launch in launches if "packed" in launch.tensors), None)
    return K1Tensors(
        residual=_written(launches, "residual"),
        weight=main[0].tensors["weight"],
        r2=_written(launches, "r2"),
        rrms=_written(launches, "rrms"),
        packed=main[0].tensors["out"] if packed is None else packed,
        splits=int(getattr(plan, "splits", 1)),
    )


def judge_k1(
    call: K1Tensors,
    residual: torch.Tensor,
    block_output: torch.Tensor | None,
    injection: torch.Tensor | None,
    norm_weight: torch.Tensor,
    weight: torch.Tensor,
    *,
    hc: int,
    eps: float,
    fold: bool,
    live: int,
    exact: bool,
    rows: list[int] | None,
) -> list[JsonDict]:
    """Records of COMBINE, rrms and packed, each on the kernel's own inputs to it."""
    stages = check_k1(
        call.r2,
        call.rrms,
        call.packed,
        residual,
        block_output,
        injection,
        norm_weight,
        weight,
        hc=hc,
        eps=eps,
        fold_w=fold,
        live=live,
        splits=call.splits,
        exact_sum=exact,
        rows=rows,
    )
    return stage_records(stages, {"combine": "r2"}, "bound")


def judge_k2(
    launch: Launch, norm_weight: torch.Tensor, w_up: torch.Tensor, hc: int, rows: list[int] | None
) -> list[JsonDict]:
    """The record of x, on the lora, r2 and rrms that the launch was given."""
    t = launch.tensors
    result = check_k2(t["x"], t["lora"], t["r2"], t["rrms"], norm_weight, w_up, hc=hc, rows=rows)
    return [comparison_of("x", "bound", result)]


def check_wiring(name: str, pairs: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> JsonDict:
    """The launches read and returned the same memory: each pair starts at one address."""
    apart = [
        f"{label} is not what the launch was given" for label, (a, b) in pairs.items() if a.data_ptr() != b.data_ptr()
    ]
    return simple_check(name, "wiring", apart, f"{', '.join(pairs)} handed on")
