"""The shapes that the launches of a case must have seen, by the names that kernels give their arguments.

Workspaces (partials, squares, counters, xn) are the plan's business and not named. A single kernel writes packed as
``out`` where it sums all of K, else a reduce kernel writes it as ``packed``; K2 reads its first r columns as ``lora``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.ops.axes import Shape

Due = dict[str, tuple[int, ...]]

#: Rows of a merged weight are rounded up to this where the op merges it in the call.
MERGED_UNIT = 64


def merged_rows(shape: Shape, inject: bool, merged: bool) -> int:
    """n_pad of a call: the shape's own, or what merging in the call rounds up to."""
    used = shape.r + (shape.hc if inject else 0)
    return shape.n_pad if merged else -(-used // MERGED_UNIT) * MERGED_UNIT


def combine(params: Mapping[str, Any]) -> Due:
    """Of COMBINE."""
    m, hc, hs = params["m"], params["hc"], params["hs"]
    return {"residual": (m, hc * hs), "block_output": (m, hs), "injection": (m, hc), "r2": (m, hc * hs)}


def _k1(m: int, shape: Shape, n_pad: int) -> Due:
    return {
        "residual": (m, shape.width),
        "weight": (n_pad, shape.width),
        "r2": (m, shape.width),
        "rrms": (m, shape.hc),
        "packed|out": (m, n_pad),
    }


def _combined(m: int, shape: Shape) -> Due:
    return {"block_output": (m, shape.hs), "injection": (m, shape.hc)}


def _k2(m: int, shape: Shape, norm: tuple[str, str]) -> Due:
    return {
        "lora": (m, shape.r),
        "r2": (m, shape.width),
        "rrms": (m, shape.hc),
        "norm_weight": (shape.width if norm[1] == "full" else shape.hs,),
        "w_up": (shape.width, shape.r),
        "x": (m, shape.hs),
    }


def k1(params: Mapping[str, Any]) -> Due:
    """Of a direct K1."""
    m, shape = params["m"], params["shape"]
    return _k1(m, shape, shape.n_pad) | _combined(m, shape)


def k2(params: Mapping[str, Any]) -> Due:
    """Of a direct K2."""
    return _k2(params["m"], params["shape"], params["norm"])


def mix(params: Mapping[str, Any]) -> Due:
    """Of ``mix``, whose K1 is given the residual in the place of the two that it does not read."""
    m, shape, weight = params["m"], params["shape"], params["weight"]
    n_pad = merged_rows(shape, weight != "final", weight != "unmerged")
    return _k1(m, shape, n_pad) | _k2(m, shape, params["norm"])


def combine_and_mix(params: Mapping[str, Any]) -> Due:
    """Of ``combine_and_mix``."""
    return mix(params) | _combined(params["m"], params["shape"])
