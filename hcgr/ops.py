"""The ``torch.library`` operators of the namespace ``hcgr``, their fake kernels, and what they launch.

Operators never return one of their inputs nor views of an output: ``combine_and_mix`` and ``mix`` return packed
whole, and :mod:`hcgr.api` takes inj_next from it. Streams are not part of a schema: operators launch on the
current stream. Implementations: here COMBINE, :mod:`hcgr.two_stage` and :mod:`hcgr.direct` the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import contract, direct, dispatch, two_stage
from hcgr import requirements as must
from hcgr.plan import plan_combine
from hcgr.requirements import row_stride

_LIBRARY = torch.library.Library("hcgr", "DEF")
_TAGS = (torch.Tag.pt2_compliant_tag,)
_PENDING = "Tensor residual, Tensor block_output, Tensor injection, Tensor norm_weight"
_MIX_WEIGHTS = (
    "Tensor w_down, Tensor w_up, Tensor? w_inject, int hc_count, float eps, Tensor? w_down_merged, bool fold_w"
)
_K1 = (
    f"{_PENDING}, Tensor w_dn_merged, SymInt lowrank, int hc_count, float eps, bool fold_w, SymInt? gemm_pad, "
    "int split_k, int? stages, int? tile_rows, bool use_tuned"
)
_K2 = "Tensor lora, Tensor r2, Tensor rrms, Tensor norm_weight, Tensor w_up, int hc_count, int? block_m, bool use_tuned"
_SCHEMAS = {
    "combine": f"({_PENDING}, int hc_count, float eps) -> Tensor",
    "combine_into": f"({_PENDING}, int hc_count, float eps, *, Tensor(a!) out) -> ()",
    "combine_and_mix": f"({_PENDING}, {_MIX_WEIGHTS}) -> (Tensor, Tensor, Tensor)",
    "mix": f"(Tensor residual, Tensor norm_weight, {_MIX_WEIGHTS}) -> (Tensor, Tensor)",
    "k1": f"({_K1}) -> (Tensor, Tensor, Tensor)",
    "k1_into": f"({_K1}, *, Tensor(a!) r2_out, Tensor(b!) out, Tensor(c!) rrms_out) -> ()",
    "k2": f"({_K2}) -> Tensor",
    "k2_into": f"({_K2}, *, Tensor(a!) block_input) -> ()",
}


def _overload(name: str) -> Any:
    return getattr(torch.ops.hcgr, name).default


def _counting_versions(name: str, buffers: Sequence[str]) -> Callable[..., Any]:
    """Autograd's view of an operator that writes into `buffers`: their versions rise, so that a backward pass that
    has saved one of them finds out. A bare operator does not do that."""

    def write(keys: Any, *arguments: Any, **named: Any) -> Any:
        for buffer in buffers:
            torch.autograd.graph.increment_version(named[buffer])
        return _overload(name).redispatch(keys & torch._C._after_ADInplaceOrView_keyset, *arguments, **named)

    return write


def _resolving(name: str, buffers: Sequence[str]) -> Callable[..., Any]:
    """An operator that writes into `buffers`, on negated views: torch's own way gives it copies of those, and fails
    behind the launch. Inputs may be such views; a buffer may not."""

    def call(*arguments: Any, **named: Any) -> Any:
        contract.raise_first(contract.present(must.resolved(buffer, named[buffer]) for buffer in buffers))
        plain = [value.resolve_neg() if isinstance(value, torch.Tensor) else value for value in arguments]
        return _overload(name)(*plain, **named)

    return call


def _register(name: str, implementation: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _LIBRARY.define(name + _SCHEMAS[name], tags=_TAGS)
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, implementation, key)
    torch.library.register_fake(f"hcgr::{name}", fake, lib=_LIBRARY)
    buffers = [argument.name for argument in _overload(name)._schema.arguments if argument.is_write]
    if buffers:
        _LIBRARY.impl(name, _counting_versions(name, buffers), "ADInplaceOrView", with_keyset=True)
        _LIBRARY.impl(name, _resolving(name, buffers), "Negative")


def _launch_combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    hc_count: int,
    r2: torch.Tensor,
    arch: arch_table.Arch,
) -> None:
    tokens, width = residual.shape
    if tokens == 0:
        return
    plan = plan_combine(tokens, hc_count, width // hc_count, arch_table.cus_of_device(residual.device, arch))
    dispatch.launch(
        "hcgr.kernels.combine",
        plan,
        {"residual": residual, "block_output": block_output, "injection": injection, "r2": r2},
        (
            tokens,
            row_stride(residual),
            row_stride(block_output),
            row_stride(injection),
            plan.workgroups(tokens),
        ),
        arch.name,
    )


_accept_combine = contract.Accepted(contract.check_combine)


def _combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
) -> torch.Tensor:
    _accept_combine(residual, block_output, injection, norm_weight, hc_count, eps)
    arch = arch_table.of_device(residual.device)
    r2 = residual.new_empty(residual.shape)
    _launch_combine(residual, block_output, injection, hc_count, r2, arch)
    return r2


def _combine_into(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float,
    *,
    out: torch.Tensor,
) -> None:
    contract.check_combine(residual, block_output, injection, norm_weight, hc_count, eps, out=out)
    arch = arch_table.of_device(residual.device)
    _launch_combine(residual, block_output, injection, hc_count, out, arch)


def _combine_fake(residual: torch.Tensor, *others: Any) -> torch.Tensor:
    contract.check_combine(residual, *others, addresses=False)
    return residual.new_empty(residual.shape)


def _combine_into_fake(*arguments: Any, out: torch.Tensor) -> None:
    contract.check_combine(*arguments, out=out, addresses=False)


_IMPLEMENTATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "combine": (_combine, _combine_fake),
    "combine_into": (_combine_into, _combine_into_fake),
    "combine_and_mix": (two_stage.combine_and_mix, two_stage.combine_and_mix_fake),
    "mix": (two_stage.mix, two_stage.mix_fake),
    "k1": (direct.k1_op, direct.k1_op_fake),
    "k1_into": (direct.k1_into_op, direct.k1_into_op_fake),
    "k2": (direct.k2_op, direct.k2_op_fake),
    "k2_into": (direct.k2_into_op, direct.k2_into_op_fake),
}
for _name, (_implementation, _fake) in _IMPLEMENTATIONS.items():
    _register(_name, _implementation, _fake)
