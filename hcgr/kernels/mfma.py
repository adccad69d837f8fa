"""Matrix-instruction helpers that the K1 kernels trace inline.

Fragment order: lane ``l`` of a 16 x 32 operand holds row ``l % 16`` and the eight K columns from
``l // 16 * 8``. The weight is the first operand (``D = W * X^T``), so a lane of the result holds four
consecutive columns ``l // 16 * 4 ..`` of its own token row ``l % 16``: a row's scale is one register.

Import by name, as from :mod:`hcgr.kernels.device`.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl.expr import rocdl

#: bf16 of one 16 x 32 fragment.
FRAGMENT = 512


def lds_layout(**fields: Any) -> Any:
    """The LDS struct of named ``fx.Array`` fields. FlyDSL reads a struct's annotations as objects, and in these
    modules they would be strings."""
    return fx.struct(type("Lds", (), {"__annotations__": fields}))


def uniform(value: Any) -> Any:
    """A 32-bit value that all lanes of a wave share, moved to a scalar register."""
    return fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, value.ir_value()))


def rsq(x: Any) -> Any:
    """1/sqrt(x) of an f32 in one instruction (``v_rsq_f32``, within 1 ulp)."""
    return fx.Float32(rocdl.rsq(fx.Float32.ir_type, x.ir_value()))


def mfma_step(weight: Any, rows: Any, total: Any, mfma_k: int) -> Any:
    """`total` plus a 16 x 16 x 32 product of two bf16 fragments: one instruction, or two of K = 16.

    The two take the low and the high four of each lane's eight columns, of both operands alike, so between
    them they cover all 32.
    """
    result_type = total.ir_value().type
    if mfma_k == 32:
        operands = [weight.ir_value(), rows.ir_value(), total.ir_value(), 0, 0, 0]
        return fx.Vector(rocdl.mfma_f32_16x16x32_bf16(result_type, operands), (4,), fx.Float32)
    for half in (0, 1):
        part = list(range(4 * half, 4 * half + 4))
        pair = [operand.shuffle(operand, part).bitcast(fx.Int16).ir_value() for operand in (weight, rows)]
        operands = [*pair, total.ir_value(), 0, 0, 0]
        total = fx.Vector(rocdl.mfma_f32_16x16x16bf16_1k(result_type, operands), (4,), fx.Float32)
    return total


def sum_over_lane_groups(x: Any) -> Any:
    """The sum of an f32 over the four lanes that share ``lane % 16``; every one of them gets it."""
    x = x + x.shuffle_xor(16, 64)
    return x + x.shuffle_xor(32, 64)
