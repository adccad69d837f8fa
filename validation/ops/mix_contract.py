"""The calls behind the contract rows of ``combine_and_mix`` and ``mix``."""

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
    spaced,
    sparse,
    transposed,
    unaligned,
    wrong_form,
)

M, TILED_M, HC, HS, R, N_PAD = 4, 32, 4, 512, 32, 48
WIDTH = HC * HS


def _legal(make: Maker, m: int, combine: bool) -> Arguments:
    """A call of the skinny path at M = 4, of the fused one at M = 32."""
    pending = {
        "block_output": make.tensor("block_output", m, HS),
        "injection": make.tensor("injection", m, HC),
    }
    return {
        "residual": make.tensor("residual", m, WIDTH),
        **(pending if combine else {}),
        "norm_weight": make.tensor("norm_weight", HS),
        "w_down": make.tensor("w_down", R, WIDTH),
        "w_up": make.tensor("w_up", WIDTH, R),
        "w_inject": make.tensor("w_inject", HC, WIDTH),
        "hc_count": HC,
        "w_down_merged": make.tensor("w_down_merged", N_PAD, WIDTH),
        "fold_w": True,
    }


def _narrow(make: Maker) -> Arguments:
    """HS = 520, which no tile divides, in every argument."""
    hs, width = 520, HC * 520
    arguments = make.legal() | {
        "residual": make.tensor("residual", M, width),
        "norm_weight": make.tensor("norm_weight", hs),
        "w_down": make.tensor("w_down", R, width),
        "w_up": make.tensor("w_up", width, R),
        "w_inject": make.tensor("w_inject", HC, width),
        "w_down_merged": make.tensor("w_down_merged", N_PAD, width),
    }
    return arguments | ({"block_output": make.tensor("block_output", M, hs)} if "block_output" in arguments else {})


def _rank(r: int) -> Mutation:
    """Weights of rank ``r``."""

    def mutate(make: Maker) -> Arguments:
        return make.legal() | {"w_down": make.tensor("w_down", r, WIDTH), "w_up": make.tensor("w_up", WIDTH, r)}

    return mutate


_MUTATIONS: dict[str, Mutation] = {
    "zero_rows": given(0),
    "zero_rows_final": given(0, w_inject=None),
    "zero_rows_unmerged": given(0, w_down_merged=None),
    "other_arch": given(),
    "hc_count_3": given(hc_count=3),
    "hs_untileable": _narrow,
    "eps_zero": given(eps=0.0),
    "eps_denormal": given(eps=1e-40),
    "eps_overflow": given(eps=1e39),
    "fold_w_number": given(fold_w=1),
    "residual_missing": given(residual=None),
    "residual_dtype": retyped("residual", torch.float32),
    "residual_rank": replaced("residual", M, HC, HS),
    "residual_unaligned": unaligned("residual"),
    "residual_row_stride": spaced("residual", 1),
    "block_output_dtype": retyped("block_output", torch.float16),
    "block_output_rows": resized("block_output", d0=1),
    "block_output_width": resized("block_output", d1=-1),
    "block_output_unaligned": unaligned("block_output"),
    "injection_dtype": retyped("injection", torch.float32),
    "injection_shape": resized("injection", d1=HC),
    "injection_inner": transposed("injection"),
    "norm_weight_dtype": retyped("norm_weight", torch.float16),
    "norm_weight_shape": resized("norm_weight", d0=1),
    "norm_weight_unaligned": unaligned("norm_weight"),
    "w_down_dtype": retyped("w_down", torch.float16),
    "w_down_width": resized("w_down", d1=8),
    "r_untileable": _rank(12),
    "r_too_large": _rank(520),
    "w_inject_dtype": retyped("w_inject", torch.float32),
    "w_inject_rows": resized("w_inject", d0=1),
    "merged_dtype": retyped("w_down_merged", torch.float32),
    "merged_rank": replaced("w_down_merged", N_PAD, HC, HS),
    "w_down_rank": replaced("w_down", R, HC, HS),
    "merged_width": resized("w_down_merged", d1=8),
    "merged_too_few": replaced("w_down_merged", 32, WIDTH),
    "merged_untileable": replaced("w_down_merged", 44, WIDTH),
    "merged_skinny_only": lambda make: make.legal(TILED_M) | {"w_down_merged": make.tensor("w_down_merged", 40, WIDTH)},
    "merged_unfolded_skinny_only": lambda make: (
        make.legal() | {"w_down_merged": make.tensor("w_down_merged", 40, WIDTH), "fold_w": False}
    ),
    "merged_strided": spaced("w_down_merged", 8),
    "stream_device": foreign_stream,
    "stream_number": given(stream=7),
    "norm_weight_strided": every_other("norm_weight"),
    "norm_weight_sparse": sparse("norm_weight"),
    "operator_hc_count_3": given(hc_count=3),
    "operator_eps_zero": given(eps=0.0),
    **{f"device_{name}": elsewhere(name) for name in ("block_output", "injection", "norm_weight", "w_down")},
    **{f"device_{name}": elsewhere(name) for name in ("w_inject", "w_down_merged")},
    **{
        f"w_up_{what}_{path}": mutation
        for path, m in (("skinny", M), ("tiled", TILED_M))
        for what, mutation in (
            ("shape", resized("w_up", m, d1=8)),
            ("dtype", lambda make, m=m: make.legal(m) | {"w_up": make.tensor("w_up", WIDTH, R, dtype=torch.float32)}),
            ("order", transposed("w_up", m)),
            ("device", elsewhere("w_up", m)),
        )
    },
}


def _verify(arguments: Arguments, result: Any) -> str | None:
    """M = 0: empty outputs of the promised form, inj_next with the stride of packed."""
    r2, x, inj_next = result
    problems = [wrong_form("r2", r2, (0, WIDTH)), wrong_form("x", x, (0, HS))]
    if arguments["w_inject"] is None:
        problems.append(None if inj_next is None else "inj_next is a tensor, must be None without inject rows")
    else:
        n_pad = 64 if arguments["w_down_merged"] is None else N_PAD
        problems.append(wrong_form("inj_next", inj_next, (0, HC), n_pad))
    if "block_output" not in arguments and r2 is not arguments["residual"]:
        problems.append("mix did not return its residual")
    return next((problem for problem in problems if problem), None)


def call(row: str, bench: Bench, combine: bool) -> ContractCall:
    """The call of one contract row."""
    function = hcgr.flydsl_gr_two_stage_combine_and_mix if combine else hcgr.flydsl_gr_two_stage_mix
    make = Maker(bench, lambda maker, m: _legal(maker, m, combine), M)
    return contract_call(row, function, make, _MUTATIONS, _verify, "combine_and_mix" if combine else "mix")


#: What the rows' calls are made of; the tables of rows and calls must agree.
ROWS = frozenset(_MUTATIONS)
__all__ = ["BF16", "ROWS", "call"]
