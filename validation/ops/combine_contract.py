"""The calls behind COMBINE's contract rows: one legal call, and for each row what makes it illegal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

import hcgr
from oracle.guards import poison
from validation.operation import Bench, ContractCall
from validation.ops.contract_calls import OPERATOR, dense, operator_call

BF16 = torch.bfloat16
M, HC, HS = 4, 4, 2560
WIDTH = HC * HS

Arguments = dict[str, Any]


@dataclass(frozen=True)
class _Maker:
    bench: Bench

    def tensor(self, name: str, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        tensor = self.bench.empty(shape, dtype, name)
        tensor.fill_(0.5)
        self.bench.filled(tensor)
        return tensor

    def legal(self, m: int = M, hs: int = HS) -> Arguments:
        return {
            "residual": self.tensor("residual", m, HC * hs),
            "block_output": self.tensor("block_output", m, hs),
            "injection": self.tensor("injection", m, HC),
            "norm_weight": self.tensor("norm_weight", hs),
            "hc_count": HC,
            "out": poison(self.bench.empty((m, HC * hs), BF16, "out")),
        }

    def overlapping(self) -> Arguments:
        """block_output in the last HS elements of the output buffer."""
        arguments = self.legal()
        store = self.tensor("store", M * WIDTH + (M - 1) * HS)
        return arguments | {
            "out": store[: M * WIDTH].view(M, WIDTH),
            "block_output": store[M * WIDTH - HS :].view(M, HS),
        }

    def in_gaps(self) -> Arguments:
        """The output behind as many elements as residual has, which lie two rows apart: among its later rows."""
        store = self.tensor("store", 2 * M * WIDTH)
        out = store[M * WIDTH :].view(M, WIDTH)
        return self.legal() | {"residual": store.view(M, 2 * WIDTH)[:, :WIDTH], "out": out}


def _with(name: str, *shape: int, dtype: torch.dtype = BF16) -> Callable[[_Maker], Arguments]:
    """The legal call with another tensor as argument ``name``."""
    return lambda make: make.legal() | {name: make.tensor(name, *shape, dtype=dtype)}


def _set(**values: Any) -> Callable[[_Maker], Arguments]:
    """The legal call with other values."""
    return lambda make: make.legal() | values


def _endless(make: _Maker) -> Arguments:
    """Sixty million rows, all of them the same one."""
    arguments = make.legal(m=1)
    names = ("residual", "block_output", "injection")
    return arguments | {name: arguments[name].expand(60_000_000, -1) for name in names} | {"out": None}


def _in_place(make: _Maker) -> Arguments:
    arguments = make.legal()
    return arguments | {"out": arguments["residual"]}


_ILLEGAL: dict[str, Callable[[_Maker], Arguments]] = {
    "zero_rows": lambda make: make.legal(m=0) | {"out": None},
    "zero_rows_out": lambda make: make.legal(m=0),
    "other_arch": lambda make: make.legal(),
    "hc_count_3": _set(hc_count=3),
    "hs_untileable": lambda make: make.legal(hs=2568),
    "eps_zero": _set(eps=0.0),
    "eps_denormal": _set(eps=1e-40),
    "eps_overflow": _set(eps=1e39),
    "residual_dtype": _with("residual", M, WIDTH, dtype=torch.float32),
    "residual_rank": _with("residual", M, HC, HS),
    "residual_unaligned": lambda make: (
        make.legal() | {"residual": make.tensor("residual", M * WIDTH + 8)[1 : M * WIDTH + 1].view(M, WIDTH)}
    ),
    "residual_row_stride": lambda make: make.legal() | {"residual": make.tensor("residual", M, WIDTH + 1)[:, :WIDTH]},
    "too_many_rows": _endless,
    "block_output_dtype_again": lambda make: (
        make.legal(m=0) | {"block_output": make.tensor("block_output", 0, HS, dtype=torch.float16), "out": None}
    ),
    "block_output_dtype": _with("block_output", M, HS, dtype=torch.float16),
    "block_output_rows": _with("block_output", M + 1, HS),
    "block_output_width": _with("block_output", M, HS - 1),
    "injection_dtype": _with("injection", M, HC, dtype=torch.float32),
    "injection_shape": _with("injection", M, 2 * HC),
    "injection_inner": lambda make: make.legal() | {"injection": make.tensor("injection", HC, M).t()},
    "norm_weight_dtype": _with("norm_weight", HS, dtype=torch.float16),
    "norm_weight_shape": _with("norm_weight", HS + 1),
    "device_block_output": _set(block_output=torch.empty(M, HS, dtype=BF16, device="meta")),
    "device_injection": _set(injection=torch.empty(M, HC, dtype=BF16, device="meta")),
    "norm_weight_strided": lambda make: make.legal() | {"norm_weight": make.tensor("norm_weight", 2 * HS)[::2]},
    "norm_weight_sparse": lambda make: make.legal() | {"norm_weight": make.tensor("norm_weight", HS).to_sparse()},
    "operator_hc_count_3": _set(hc_count=3),
    "operator_eps_zero": _set(eps=0.0),
    "stream_number": _set(stream=7),
    "stream_device": _set(stream=SimpleNamespace(device=torch.device("cuda", 1), cuda_stream=0)),
    "out_shape": _with("out", M, WIDTH + 8),
    "out_dtype": _with("out", M, WIDTH, dtype=torch.float32),
    "out_strided": lambda make: make.legal() | {"out": make.tensor("out", M, WIDTH + 8)[:, :WIDTH]},
    "out_unaligned": lambda make: (
        make.legal() | {"out": make.tensor("out", M * WIDTH + 8)[1 : M * WIDTH + 1].view(M, WIDTH)}
    ),
    "out_tracked": lambda make: (lambda a: a | {"out": a["out"].detach().requires_grad_()})(make.legal()),
    "out_device": _set(out=torch.empty(M, WIDTH, dtype=BF16, device="meta")),
    "out_is_residual": _in_place,
    "out_overlaps_input": _Maker.overlapping,
    "out_in_gaps": _Maker.in_gaps,
}
#: Rows whose call comes after another, which is accepted and launches nothing.
_FIRST = {"block_output_dtype_again": "zero_rows"}

#: Rows in which FlyDSL is made to answer with another target: the emulator itself would refuse to be one.
_TARGETS = {"other_arch": "gfx90a"}


def call(row: str, bench: Bench) -> ContractCall:
    """The call of the contract row called ``row``."""
    arguments = _ILLEGAL[row](_Maker(bench))
    first = _ILLEGAL[_FIRST[row]](_Maker(bench)) if row in _FIRST else None

    def make_call() -> Any:
        target = _TARGETS.get(row)
        if first is not None:
            hcgr.flydsl_gr_two_stage_combine(**first)
        if row.startswith(OPERATOR):
            return operator_call("combine", arguments)
        if target is None:
            return hcgr.flydsl_gr_two_stage_combine(**arguments)
        with mock.patch("hcgr.arch.configured", return_value=target):
            return hcgr.flydsl_gr_two_stage_combine(**arguments)

    def verify(result: Any) -> str | None:
        out = arguments["out"]
        if tuple(result.shape) != (0, WIDTH) or result.dtype != BF16:
            return f"result is {result.dtype} {tuple(result.shape)}, must be {BF16} {(0, WIDTH)}"
        return "result is not the caller's output" if out is not None and result is not out else None

    return ContractCall(make_call, dense(arguments), verify)
