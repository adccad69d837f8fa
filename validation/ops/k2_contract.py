"""The calls behind the contract rows of the direct K2."""

from __future__ import annotations

from typing import Any

import torch

import hcgr
from validation.operation import Bench, ContractCall
from validation.ops.contract_calls import (
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


def _legal(make: Maker, m: int) -> Arguments:
    return {
        "lora": make.tensor("packed", m, N_PAD)[:, :R],
        "r2": make.tensor("r2", m, WIDTH),
        "rrms": make.tensor("rrms", m, HC, dtype=torch.float32),
        "norm_weight": make.tensor("norm_weight", HS),
        "w_up": make.tensor("w_up", WIDTH, R),
        "hc_count": HC,
        "block_input": make.buffer("block_input", m, HS),
    }


def _narrow(make: Maker) -> Arguments:
    """HS = 520, which no tile divides."""
    hs, width = 520, HC * 520
    return make.legal() | {
        "r2": make.tensor("r2", M, width),
        "norm_weight": make.tensor("norm_weight", hs),
        "w_up": make.tensor("w_up", width, R),
        "block_input": make.buffer("block_input", M, hs),
    }


def _rank(r: int) -> Mutation:
    return lambda make: make.legal() | {"lora": make.tensor("lora", M, r), "w_up": make.tensor("w_up", WIDTH, r)}


def _tall_and_deep(make: Maker) -> Arguments:
    """A tile of 128 rows with r = 512: the weights and sums of a wave do not fit its registers."""
    return make.legal(128) | {
        "lora": make.tensor("lora", 128, 512),
        "w_up": make.tensor("w_up", WIDTH, 512),
        "block_m": 128,
    }


_MUTATIONS: dict[str, Mutation] = {
    "zero_rows": given(0),
    "zero_rows_alloc": given(0, block_input=None),
    "other_arch": given(),
    "hc_count_3": given(hc_count=3),
    "hs_untileable": _narrow,
    "r_untileable": _rank(12),
    "r_too_large": _rank(520),
    "row_tail": given(17),
    "row_tail_100": given(100),
    "block_m_24": given(block_m=24),
    "block_m_registers": _tall_and_deep,
    "block_m_tail": given(48, block_m=32),
    "lora_dtype": retyped("lora", torch.float32),
    "lora_rows": resized("lora", d0=16),
    "lora_rank": replaced("lora", M, HC, R),
    "lora_inner": transposed("lora"),
    "lora_unaligned": lambda make: make.legal() | {"lora": make.tensor("packed", M, N_PAD)[:, 1 : R + 1]},
    "r2_dtype": retyped("r2", torch.float32),
    "r2_rank": replaced("r2", M, HC, HS),
    "r2_unaligned": unaligned("r2"),
    "r2_row_stride": spaced("r2", 1),
    "rrms_dtype": retyped("rrms", torch.bfloat16),
    "rrms_shape": resized("rrms", d1=HC),
    "rrms_strided": spaced("rrms", 4),
    "norm_weight_dtype": retyped("norm_weight", torch.float16),
    "norm_weight_shape": resized("norm_weight", d0=1),
    "w_up_dtype": retyped("w_up", torch.float32),
    "w_up_shape": resized("w_up", d1=8),
    "w_up_order": transposed("w_up"),
    "w_up_strided": spaced("w_up", 8),
    "stream_device": foreign_stream,
    "stream_number": given(stream=7),
    "norm_weight_strided": every_other("norm_weight"),
    "norm_weight_sparse": sparse("norm_weight"),
    "operator_hc_count_3": given(hc_count=3),
    **{f"device_{name}": elsewhere(name) for name in ("lora", "rrms", "norm_weight", "w_up", "block_input")},
    "block_input_shape": resized("block_input", d1=8),
    "block_input_dtype": retyped("block_input", torch.float32),
    "block_input_strided": spaced("block_input", 8),
    "block_input_unaligned": unaligned("block_input"),
    "block_input_tracked": tracked("block_input"),
    "block_input_overlaps_r2": sharing("block_input", "r2"),
    "block_input_overlaps_w_up": sharing("block_input", "w_up"),
}


def _verify(arguments: Arguments, result: Any) -> str | None:
    """M = 0: an empty output, the caller's own if given."""
    own = arguments["block_input"]
    problem = wrong_form("x", result, (0, HS))
    return problem or (None if own is None or result is own else "block_input is not what came back")


def call(row: str, bench: Bench) -> ContractCall:
    """The call of one contract row."""
    return contract_call(row, hcgr.flydsl_up_gate_mix_norm, Maker(bench, _legal, M), _MUTATIONS, _verify, "k2")


ROWS = frozenset(_MUTATIONS)
__all__ = ["ROWS", "call"]
