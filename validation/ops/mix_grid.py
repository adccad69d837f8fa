"""Grids of ``combine_and_mix`` and ``mix``, and the paths that their cases are built for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.grid import Anchor, Axis, AxisValue, Grid, Rule, named
from validation.ops.axes import (
    DECODE_ROWS,
    FOLD,
    INJECTION,
    M257,
    M2047,
    NORM,
    PRODUCTION,
    ROWS,
    SHAPE_RULES,
    SMALL,
    TILE,
    VALUES,
    is_long,
    one_pass,
    rows_past,
    shapes,
    small_with,
    with_shapes,
)

_DECODE = (
    AxisValue("m1", 1, "production", "decode, one token"),
    AxisValue("m0", 0, "zero", "empty outputs, no launch"),
    AxisValue("m2", 2, "tiny"),
    AxisValue("m3", 3, "odd"),
    AxisValue("m5", 5, "odd"),
    AxisValue("m8", 8, "production", "the most rows of the skinny path"),
    AxisValue("m9", 9, "tile boundary", "one row past the skinny path"),
)
_EDGES = (
    AxisValue("m15", 15, "tile boundary", "one row short of a 16-row tile"),
    AxisValue("m16", 16, "tile boundary"),
    AxisValue("m17", 17, "tile boundary", "one row past a 16-row tile"),
    AxisValue("m31", 31, "tile boundary", "one row short of two tiles"),
    AxisValue("m32", 32, "production", "decode"),
    AxisValue("m33", 33, "tile boundary", "one row past two tiles"),
    AxisValue("m63", 63, "tile boundary", "one row short of a 64-row tile"),
    AxisValue("m65", 65, "tile boundary", "one row past a 64-row tile"),
    AxisValue("m127", 127, "tile boundary", "one row short of a 128-row tile"),
    AxisValue("m129", 129, "tile boundary", "one row past a 128-row tile"),
)
_PREFILL = (
    AxisValue("m512", 512, "production"),
    AxisValue("m4096", 4096, "production"),
    AxisValue("m8192", 8192, "production", "prefill"),
    AxisValue("m8193", 8193, "tile boundary", "the last tile holds one row"),
    AxisValue("m16399", 16399, "odd", "the last tile is ragged"),
    AxisValue("m65536", 65536, "production", "the largest published prefill"),
    AxisValue("m2g", rows_past(1 << 31), "beyond 2^31", "bytes of residual and r2 pass 2^31"),
    AxisValue("m4g", rows_past(1 << 32), "beyond 2^32", "their bytes pass 2^32, their elements 2^31"),
)
_M2048 = AxisValue("m2048", 2048, "production", "every workgroup runs, so that no other value is paired with it")
_M = Axis("m", (*_DECODE, *_EDGES, *_PREFILL), apart=(M257, M2047, _M2048))
_MIX_ROWS = (
    "m1",
    "m0",
    "m3",
    "m8",
    "m9",
    "m16",
    "m17",
    "m33",
    "m65",
    "m129",
    "m512",
    "m8193",
    "m4g",
)
_MIX_M = Axis("m", tuple(v for v in _M.values if v.label in _MIX_ROWS), apart=(M257,))
_NORM = Axis("norm", tuple(v for v in NORM.values if v.label != "wbf16full"))
_MIX_NORM = Axis("norm", tuple(v for v in NORM.values if v.label in ("wbf16", "wf32full")))
_WEIGHT = Axis(
    "weight",
    (
        AxisValue("merged", "merged", "production", "the caller merged the weight once"),
        AxisValue("final", "final", "variation", "the final mixer: merged without inject rows, no inj_next"),
        AxisValue("unmerged", "unmerged", "variation", "the op merges (and folds) the weight in the call"),
    ),
)
_PLAN = Axis(
    "plan",
    (
        AxisValue("heuristic", "heuristic", "production", "planned without the tuned table"),
        AxisValue("shipped", "shipped", "production", "planned with the tuned table as it ships"),
        AxisValue("decoupled", "decoupled", "variation", "a tuned table that asks for the decoupled path"),
        AxisValue("cus80", "cus80", "variation", "a part with 80 compute units"),
    ),
)
_LAYERS = Axis(
    "layers",
    (
        AxisValue("one", 1, "production"),
        AxisValue("three", 3, "production", "three layers in a row, each fed inj_next and r2 of the one before"),
    ),
)


_RULES = (
    *SHAPE_RULES,
    with_shapes("weight", "merged"),
    with_shapes("plan", "heuristic", "decoupled"),
    small_with("plan", "heuristic", "shipped"),
    with_shapes("layers", 1),
    Rule(("m", "layers"), lambda m, layers: layers == 1 or (not is_long(m) and 0 < m <= 33), "chains are short"),
    Rule(("weight", "layers"), lambda weight, layers: weight != "final" or layers == 1, "a chain needs inject rows"),
    Rule(
        ("weight", "values"),
        lambda weight, values: weight != "unmerged" or values != "exact",
        "an exact weight is folded already: folding it in the call would round",
    ),
    Rule(
        ("weight", "plan"),
        lambda weight, plan: weight == "merged" or plan in ("heuristic", "shipped"),
        "a forced plan is for the merged weight",
    ),
    Rule(
        ("shape", "layers"), lambda shape, layers: layers == 1 or shape.hs <= 2560, "chains are run on narrow streams"
    ),
    Rule(
        ("shape", "layers"),
        lambda shape, layers: layers == 1 or shape == SMALL,
        "chains meet every other value at the small shape, and the production shape in anchors",
        anchored=True,
    ),
    Rule(
        ("values", "layers"),
        lambda values, layers: layers == 1 or values in ("normal", "zero_rows", "large_mean"),
        "a chain amplifies extreme values until nothing finite is left",
    ),
    Rule(
        ("m", "plan"),
        lambda m, plan: plan != "decoupled" or (not callable(m) and m > DECODE_ROWS and m % TILE == 0),
        "a tuned entry holds for rows that its tile divides, and never for decode",
    ),
    Rule(("m", "plan"), lambda m, plan: plan != "cus80" or callable(m) or m > 0, "nothing is planned for no rows"),
)


def k1_path(params: Mapping[str, Any]) -> str:
    """The K1 path that a call of ``combine_and_mix`` or ``mix`` was built for."""
    if params["fold"] and params["m"] <= DECODE_ROWS:
        return "skinny"
    if params["plan"] == "decoupled":
        return "decoupled"
    return one_pass(params["m"], params["shape"], params["fold"])


def paths(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Every path of such a call. What the shipped table picks for K1 is the table's business."""
    first = (k1_path(params),) if params["plan"] != "shipped" or k1_path(params) == "skinny" else ()
    return (*first, "k2")


_AXES = (
    _M,
    shapes("p336", "p384", "s48", "hc2", "hc8", "hc8r320", "r128", "hs8192", "hs40960"),
    FOLD,
    _NORM,
    VALUES,
    INJECTION,
    ROWS,
    _WEIGHT,
    _PLAN,
    _LAYERS,
)
#: Cheap cases each of which alone shows some defect of the mutant corpus (``mutants/cases.toml``).
_TELLING = {
    "m9.s48.unfolded.wf32full.exact.injdense.rowsdense.merged.heuristic.one": "a row tail, right to the bit",
    "m8.hc2.folded.wbf16.zeros.injview.rowsdense.merged.heuristic.one": "rrms from the default eps alone",
    "m16.hc2.unfolded.wbf16.wide.injview.rowspadded.merged.decoupled.one": "decoupled, a column tile that is dead",
}

COMBINE_AND_MIX_GRID = Grid(
    axes=_AXES,
    rules=_RULES,
    anchors=(
        Anchor({"m": "m1"}, "production decode, as vLLM calls it"),
        Anchor({"m": "m8", "layers": "three"}, "three decode layers in a row"),
        Anchor({"m": "m3", "values": "special"}, "special values at the production shape: skinny"),
        Anchor({"m": "m17", "values": "special", "norm": "wf32"}, "special values at the production shape: fused"),
        Anchor(
            {"m": "m16", "values": "special", "fold": "unfolded", "norm": "wf32full"},
            "special values at the production shape: split-K",
        ),
        Anchor({"m": "m17", "values": "wide", "injection": "injdense"}, "wide values at the production shape: fused"),
        Anchor(
            {"m": "m16", "values": "wide", "plan": "decoupled", "shape": "p384", "fold": "unfolded"},
            "wide values at the production shape: decoupled",
        ),
        Anchor({"m": "m1", "shape": "hs40960", "values": "wide"}, "wide values in the widest stream"),
        Anchor(
            {"m": "m16", "shape": "hs8192", "plan": "decoupled", "fold": "unfolded"}, "decoupled over a wide stream"
        ),
        Anchor({"m": "m512"}, "published row count, every workgroup"),
        Anchor({"m": "m512", "fold": "unfolded", "shape": "p384"}, "published row count, unfolded"),
        Anchor({"m": "m65", "plan": "cus80", "norm": "wf32", "values": "exact"}, "a part with 80 CUs"),
        Anchor(
            {"m": "m2048", "weight": "final", "row_padding": "rowspadded", "injection": "injdense"},
            "the final mixer at a published row count",
        ),
        Anchor({"m": "m8193"}, "folded and n_pad = 336 above 8192 rows, which the published suite leaves open"),
        Anchor({"m": "m65536", "plan": "shipped"}, "folded and n_pad = 336 at the largest published prefill"),
        Anchor(
            {"m": "m16399", "shape": "s48", "fold": "unfolded", "injection": "injodd", "row_padding": "rowspadded"},
            "unfolded at a large ragged row count",
        ),
        *(
            Anchor({"m": m, "shape": shape, "fold": "unfolded", **more}, f"ragged tiles of the resident path: {why}")
            for m, shape, more, why in (
                ("m257", "hc2", {"norm": "wf32full", "values": "wide"}, "HC = 2, a dead column tile"),
                ("m2047", "s48", {"norm": "wf32", "injection": "injdense"}, "32-row tiles, a stream each"),
            )
        ),
        *named(_AXES, _TELLING),
    ),
)
_MIX_AXES = (_MIX_M, shapes("p336", "s48", "hc8"), FOLD, _MIX_NORM, VALUES, ROWS, _WEIGHT, _PLAN, _LAYERS)
_MIX_TELLING = {
    "m9.s48.folded.wbf16.wide.rowspadded.merged.heuristic.one": "one token past the skinny path",
    "m8.s48.unfolded.wbf16.exact.rowspadded.final.shipped.one": "split-K over the caller's residual, rows with gaps",
    "m16.s48.folded.wbf16.mean.rowspadded.merged.decoupled.three": "decoupled over the caller's rows, with gaps",
}
MIX_GRID = Grid(
    axes=_MIX_AXES,
    rules=(
        *_RULES,
        Rule(
            ("m", "shape"),
            lambda m, shape: shape != PRODUCTION or (not callable(m) and m in (0, 1, 8, 16, 17, 33, 8193)),
            "combine_and_mix runs the other row counts of the production shape",
        ),
    ),
    anchors=(
        Anchor({"m": "m1", "weight": "final"}, "the final mixer at decode"),
        Anchor({"m": "m17", "values": "special", "fold": "unfolded"}, "special values at the production shape"),
        Anchor({"m": "m8193", "weight": "final"}, "the final mixer at prefill"),
        Anchor({"m": "m17", "layers": "three", "shape": "s48"}, "mix, then two layers of combine_and_mix"),
        *(
            Anchor({"m": m, "shape": "s48", "row_padding": "rowsfar"} | more, f"residual rows far apart: {path}")
            for m, more, path in (
                ("m16", {"plan": "decoupled"}, "decoupled, K2"),
                ("m17", {"fold": "unfolded"}, "split-K, K2"),
            )
        ),
        *(
            Anchor({"m": m, "shape": shape, "fold": "unfolded", **more}, f"resident over the caller's residual: {why}")
            for m, shape, more, why in (
                ("m257", "s48", {"row_padding": "rowspadded", "weight": "final"}, "ragged tiles, rows with gaps"),
                ("m257", "s48", {"norm": "wf32full", "values": "exact"}, "norm weight [HC*HS]"),
                ("m512", "s48", {"values": "wide"}, "32-row tiles"),
                ("m8193", "s48", {"norm": "wf32full"}, "one row in the last tile"),
            )
        ),
        *named(_MIX_AXES, _MIX_TELLING),
    ),
)
