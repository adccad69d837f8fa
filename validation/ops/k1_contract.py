"""The calls behind the contract rows of the direct K1."""

from __future__ import annotations

from typing import Any

import torch

import hcgr
from validation.operation import Bench, ContractCall
from validation.ops.contract_calls import (
    BF16,
    Arguments,
    Maker,
    Mutation,
    contract_call,
    elsewhere,
    every_other,
    foreign_stream,
    given,
    replaced,
    resized,
    retyped,
    sharing,
    spaced,
    sparse,
    tracked,
    transposed,
    unaligned,
    wrong_form,
)

M, HC, HS, R, N_PAD = 32, 4, 512, 32, 48
WIDTH = HC * HS
_BUFFERS = ("r2_out", "out", "rrms_out")


def _legal(make: Maker, m: int) -> Arguments:
    return {
        "residual": make.tensor("residual", m, WIDTH),
        "block_output": make.tensor("block_output", m, HS),
        "injection": make.tensor("injection", m, HC),
        "norm_weight": make.tensor("norm_weight", HS),
        "w_dn_merged": make.tensor("w_dn_merged", N_PAD, WIDTH),
        "lowrank": R,
        "hc_count": HC,
        "fold_w": True,
        "r2_out": make.buffer("r2_out", m, WIDTH),
        "out": make.buffer("out", m, N_PAD),
        "rrms_out": make.buffer("rrms_out", m, HC, dtype=torch.float32),
    }


def _narrow(make: Maker) -> Arguments:
    """HS = 520, which no tile divides."""
    hs, width = 520, HC * 520
    return make.legal() | {
        "residual": make.tensor("residual", M, width),
        "block_output": make.tensor("block_output", M, hs),
        "norm_weight": make.tensor("norm_weight", hs),
        "w_dn_merged": make.tensor("w_dn_merged", N_PAD, width),
        "r2_out": make.buffer("r2_out", M, width),
    }


def _outputs_that_share(make: Maker) -> Arguments:
    """packed lies in r2's buffer."""
    arguments = make.legal()
    return arguments | {"out": arguments["r2_out"].view(-1)[: M * N_PAD].view(M, N_PAD)}


def _endless(make: Maker) -> Arguments:
    """2^40 rows, all of them the same one."""
    arguments = make.legal(1)
    names = ("residual", "block_output", "injection")
    return arguments | {name: arguments[name].expand(1 << 40, -1) for name in names} | dict.fromkeys(_BUFFERS)


_MUTATIONS: dict[str, Mutation] = {
    "zero_rows": given(0),
    "zero_rows_alloc": given(0, r2_out=None, out=None, rrms_out=None),
    "other_arch": given(),
    "hc_count_3": given(hc_count=3),
    "hs_untileable": _narrow,
    "eps_zero": given(eps=0.0),
    "eps_denormal": given(eps=1e-40),
    "eps_overflow": given(eps=1e39),
    "too_many_rows": _endless,
    "row_tail": given(100),
    "row_tail_17_unfolded": given(17, fold_w=False),
    "gemm_pad_small": given(100, gemm_pad=96),
    "gemm_pad_small_skinny": given(4, gemm_pad=3),
    "gemm_pad_untileable": given(100, gemm_pad=120),
    "stages_1": given(split_k=1, stages=1),
    "stages_too_deep": given(split_k=1, stages=1000),
    "stages_with_split_k": given(split_k=2, stages=3),
    "split_k_0": given(split_k=0),
    "split_k_3": given(split_k=3),
    "block_m_24": given(block_m=24),
    "sk_block_m_24": given(sk_block_m=24, block_m=16),
    "dn_block_m_24": given(split_k=1, dn_block_m=24, block_m=16),
    "dn_block_m_24_stages": given(stages=2, dn_block_m=24),
    "dn_block_m_text": given(dn_block_m="16"),
    "lowrank_too_large": given(lowrank=N_PAD - HC + 1),
    "lowrank_0": given(lowrank=0),
    "operator_lowrank_0": given(lowrank=0),
    "residual_dtype": retyped("residual", torch.float32),
    "residual_rank": replaced("residual", M, HC, HS),
    "residual_unaligned": unaligned("residual"),
    "residual_row_stride": spaced("residual", 1),
    "block_output_dtype": retyped("block_output", torch.float16),
    "block_output_width": resized("block_output", d1=-1),
    "injection_dtype": retyped("injection", torch.float32),
    "injection_shape": resized("injection", d1=HC),
    "injection_inner": transposed("injection"),
    "norm_weight_dtype": retyped("norm_weight", torch.float16),
    "norm_weight_shape": resized("norm_weight", d0=1),
    "weight_dtype": retyped("w_dn_merged", torch.float32),
    "weight_width": resized("w_dn_merged", d1=8),
    "weight_untileable": replaced("w_dn_merged", 44, WIDTH),
    "weight_skinny_only": lambda make: (
        make.legal() | {"w_dn_merged": make.tensor("w_dn_merged", 40, WIDTH), "out": make.buffer("out", M, 40)}
    ),
    "weight_n8_tiled": lambda make: (
        make.legal()
        | {"w_dn_merged": make.tensor("w_dn_merged", 8, WIDTH), "lowrank": 4, "out": make.buffer("out", M, 8)}
    ),
    "weight_strided": spaced("w_dn_merged", 8),
    "stream_device": foreign_stream,
    "stream_number": given(stream=7),
    "norm_weight_strided": every_other("norm_weight"),
    "norm_weight_sparse": sparse("norm_weight"),
    "operator_hc_count_3": given(hc_count=3),
    "operator_eps_zero": given(eps=0.0),
    **{f"device_{name}": elsewhere(name) for name in ("block_output", "injection", "norm_weight", "w_dn_merged")},
    **{f"device_{name}": elsewhere(name) for name in _BUFFERS},
    **{f"{name}_shape": resized(name, d1=8) for name in _BUFFERS},
    **{f"{name}_dtype": retyped(name, torch.float16) for name in _BUFFERS},
    **{f"{name}_strided": spaced(name, 8) for name in _BUFFERS},
    **{f"{name}_unaligned": unaligned(name) for name in _BUFFERS},
    **{f"{name}_tracked": tracked(name) for name in _BUFFERS},
    "r2_in_place": lambda make: (lambda a: a | {"r2_out": a["residual"]})(make.legal()),
    "r2_overlaps_block_output": sharing("r2_out", "block_output"),
    "packed_overlaps_weight": sharing("out", "w_dn_merged"),
    "rrms_overlaps_norm_weight": sharing("rrms_out", "norm_weight"),
    "outputs_overlap": _outputs_that_share,
}


def _verify(arguments: Arguments, result: Any) -> str | None:
    """M = 0: empty outputs, the caller's own if given."""
    r2, packed = result
    problems = [wrong_form("r2", r2, (0, WIDTH)), wrong_form("packed", packed, (0, N_PAD))]
    for name, own in (("r2_out", r2), ("out", packed)):
        if arguments[name] is not None and own is not arguments[name]:
            problems.append(f"{name} is not what came back")
    return next((problem for problem in problems if problem), None)


def call(row: str, bench: Bench) -> ContractCall:
    """The call of one contract row."""
    return contract_call(row, hcgr.flydsl_k1_combine_norm_down, Maker(bench, _legal, M), _MUTATIONS, _verify, "k1")


ROWS = frozenset(_MUTATIONS)
__all__ = ["BF16", "ROWS", "call"]
