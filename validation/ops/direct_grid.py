"""Grids of the direct K1 and K2, and the paths that their cases are built for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from validation.grid import Anchor, Axis, AxisValue, Grid, Rule, named
from validation.ops.axes import (
    DECODE_ROWS,
    FOLD,
    INJECTION,
    M257,
    M511,
    NORM,
    ROWS,
    SHAPE_RULES,
    TILE,
    VALUES,
    one_pass,
    rows_past,
    rows_past_packed,
    shapes,
    small_with,
    with_shapes,
)

_K1_M = Axis(
    "m",
    (
        AxisValue("m64", 64, "production"),
        AxisValue("m0", 0, "zero", "empty outputs, no launch"),
        AxisValue("m1", 1, "production", "decode"),
        AxisValue("m3", 3, "odd"),
        AxisValue("m4", 4, "tiny"),
        AxisValue("m6", 6, "tiny"),
        AxisValue("m7", 7, "odd"),
        AxisValue("m8", 8, "production", "the most rows of the skinny path"),
        AxisValue("m16", 16, "tile boundary"),
        AxisValue("m17", 17, "tile boundary", "runs with gemm_pad"),
        AxisValue("m32", 32, "tile boundary"),
        AxisValue("m48", 48, "tile boundary", "three 16-row tiles"),
        AxisValue("m100", 100, "odd", "refused without gemm_pad"),
        AxisValue("m128", 128, "tile boundary"),
        AxisValue("m224", 224, "production", "seven 32-row tiles"),
        AxisValue("m512", 512, "production"),
        AxisValue("m4096", 4096, "production"),
        AxisValue("m8193", 8193, "tile boundary", "one row in the last tile, by gemm_pad"),
        AxisValue("m65536", 65536, "production"),
        AxisValue("m4g", rows_past(1 << 32), "beyond 2^32", "bytes of r2 pass 2^32, by gemm_pad"),
    ),
    apart=(
        AxisValue("mpacked2g", rows_past_packed(1 << 31), "beyond 2^31", "elements of packed pass 2^31"),
        M257,
        M511,
    ),
)
_REQUESTS: dict[str, dict[str, Any]] = {
    "auto": {"split_k": "auto", "use_tuned": False},
    "split1d2": {"split_k": 1, "stages": 2},
    "split2": {"split_k": 2},
    "d3": {"stages": 3},
    "d4h16": {"split_k": 1, "stages": 4, "dn_block_m": 16},
    "split8h16": {"split_k": 8, "sk_block_m": 16},
}
_REQUEST = Axis(
    "request",
    (
        AxisValue("auto", _REQUESTS["auto"], "production", "the heuristic's choice"),
        AxisValue("split1d2", _REQUESTS["split1d2"], "production", "decoupled, two stages"),
        AxisValue("split2", _REQUESTS["split2"], "variation", "two parts of K, each of whole streams"),
        AxisValue("d3", _REQUESTS["d3"], "variation", "decoupled, three stages"),
        AxisValue("d4h16", _REQUESTS["d4h16"], "variation", "decoupled, four stages, 16-row tiles"),
        AxisValue("split8h16", _REQUESTS["split8h16"], "variation", "eight parts of K, 16-row tiles"),
    ),
)
#: Requests that large row counts are run with.
_LONG_REQUESTS = [_REQUESTS[name] for name in ("auto", "split1d2", "split2")]
_PAD = Axis(
    "gemm_pad",
    (
        AxisValue("padnone", None, "production"),
        AxisValue("pad16", lambda params: max(TILE, -(-params["m"] // TILE) * TILE), "variation", "rows up to 16"),
        AxisValue("pad128", lambda params: max(128, -(-params["m"] // 128) * 128), "production", "rows up to 128"),
    ),
    apart=(
        AxisValue("pad256", 256, "variation", "few rows, planned like so many that an unfolded weight is resident"),
    ),
)
_BUFFERS = Axis(
    "buffers",
    (
        AxisValue("buffers", ("r2_out", "out", "rrms_out"), "production", "the caller owns every output"),
        AxisValue("nobuffer", (), "production", "the op allocates every output"),
        AxisValue("rrmsonly", ("rrms_out",), "production", "only rrms, which is the way to get it"),
    ),
)


def k1_path(params: Mapping[str, Any]) -> str:
    """The path that a direct K1 call was built for."""
    request = params["request"]
    split, stages = request.get("split_k", "auto"), request.get("stages")
    if split == "auto" and stages is None and params["fold"] and params["m"] <= DECODE_ROWS:
        return "skinny"
    if split == 1 or stages is not None:
        return "decoupled"
    if request == _REQUESTS["auto"]:
        return one_pass(max(params["m"], params["gemm_pad"] or 0), params["shape"], params["fold"])
    return "fused" if params["fold"] else "split_k"


def _rows_need_pad(m: Any, pad: Any) -> bool:
    """Whether a row count and a gemm_pad go together on the tiled paths, or on the skinny one."""
    return pad is not None or (not callable(m) and (m % TILE == 0 or m <= DECODE_ROWS))


def _decode_request(m: Any, request: Mapping[str, Any]) -> bool:
    return callable(m) or m not in range(1, DECODE_ROWS + 1) or request.get("split_k") == "auto"


def _decode_fold(m: Any, fold: bool) -> bool:
    return callable(m) or m not in range(1, DECODE_ROWS + 1) or fold


_N8_RULES = tuple(
    Rule(("shape", other), allows, "n_pad = 8 is legal on the skinny path alone")
    for other, allows in (
        ("m", lambda shape, m: shape.n_pad != 8 or (not callable(m) and m <= DECODE_ROWS)),
        ("fold", lambda shape, fold: shape.n_pad != 8 or fold),
        ("request", lambda shape, request: shape.n_pad != 8 or request.get("split_k") == "auto"),
    )
)

_K1_AXES = (
    _K1_M,
    shapes("p336", "p384", "s48", "hc2", "hc8", "r128", "hs8192", "n8"),
    FOLD,
    _REQUEST,
    _PAD,
    NORM,
    VALUES,
    INJECTION,
    ROWS,
    _BUFFERS,
)
#: Cheap cases each of which alone shows some defect of the mutant corpus (``mutants/cases.toml``).
_K1_TELLING = {
    "m3.s48.folded.auto.pad128.wf32.normal.injview.rowspadded.buffers": "skinny, one wave a stream",
    "m3.hc8.folded.auto.pad16.wf32full.wide.injodd.rowspadded.nobuffer": "skinny, eight streams",
    "m7.s48.folded.auto.padnone.wf32.zeros.injdense.rowspadded.nobuffer": "skinny, rrms from eps alone",
    "m3.hc2.folded.auto.pad128.wf32full.mean.injview.rowsdense.buffers": "skinny, columns that nobody multiplies",
    "m1.hc2.folded.auto.pad16.wf32full.special.injodd.rowspadded.nobuffer": "skinny, NaN in a cut column tile",
    "m48.s48.folded.split8h16.pad128.wbf16.wide.injview.rowsdense.buffers": "eight parts of K, then the reduce kernel",
    "m17.hc2.folded.auto.pad16.wf32full.normal.injview.rowsdense.nobuffer": "fused, a row tail and a cut column tile",
    "m48.s48.folded.split2.pad128.wbf16full.normal.injodd.rowspadded.rrmsonly": "two streams a part, rows with gaps",
    "m4g.s48.folded.auto.pad128.wf32.normal.injview.rowspadded.rrmsonly": "fused past 2^32 bytes",
    "m17.s48.unfolded.split8h16.pad16.wf32.special.injodd.rowspadded.nobuffer": "split-K with a row tail",
    "m16.hc2.unfolded.auto.pad16.wf32full.normal.injodd.rowsdense.nobuffer": "split-K, norm weight [HC*HS]",
    "m17.r128.unfolded.auto.pad128.wf32full.exact.injodd.rowsdense.buffers": "three waves share a row of R2",
    "m16.hc8.unfolded.split2.pad16.wf32full.normal.injodd.rowsdense.buffers": "split-K over eight streams",
    "m4g.s48.unfolded.auto.pad16.wbf16full.exact.injodd.rowsdense.buffers": "resident past 2^32 bytes",
    "m4g.s48.unfolded.split2.pad128.wbf16.exact.injdense.rowsdense.nobuffer": "norm, split-K past 2^32 bytes",
    "m17.hc8.folded.split1d2.pad16.wf32full.wide.injodd.rowsdense.buffers": "decoupled with a row tail",
    "m16.s48.folded.d3.pad128.wbf16.special.injview.rowspadded.nobuffer": "NaN beside a cut column tile, decoupled",
    "m32.s48.folded.d3.pad16.wbf16full.wide.injdense.rowspadded.buffers": "two steps in flight",
    "m16.s48.unfolded.d4h16.pad128.wf32.wide.injodd.rowsdense.nobuffer": "decoupled over xn, float32 norm weight",
    "m4g.s48.folded.split1d2.pad128.wf32full.wide.injodd.rowsdense.buffers": "decoupled past 2^32 bytes",
}

K1_GRID = Grid(
    axes=_K1_AXES,
    rules=(
        *SHAPE_RULES,
        *_N8_RULES,
        with_shapes("request", *_LONG_REQUESTS),
        small_with("request", _REQUESTS["auto"]),
        Rule(
            ("m", "request"),
            lambda m, request: (not callable(m) and m <= 128) or request in _LONG_REQUESTS,
            "deep pipelines and low tiles are run with up to 128 rows",
        ),
        Rule(("m", "gemm_pad"), _rows_need_pad, "a row tail needs gemm_pad"),
        Rule(("m", "request"), _decode_request, "decode rows take the skinny path"),
        Rule(("m", "fold"), _decode_fold, "the skinny path takes a folded weight"),
    ),
    anchors=(
        Anchor({"m": "m224"}, "a row count whose tallest tile is 32 rows"),
        Anchor({"m": "m100", "gemm_pad": "pad128"}, "the published tail case"),
        Anchor({"m": "m1", "shape": "n8"}, "n_pad = 8 at decode"),
        Anchor({"m": "m8", "shape": "n8", "buffers": "nobuffer"}, "n_pad = 8 at eight rows"),
        Anchor({"m": "m32", "request": "d3", "fold": "unfolded"}, "decoupled over a stored xn, three stages deep"),
        Anchor({"m": "m64", "request": "split8h16", "fold": "unfolded"}, "split-K at the production shape"),
        Anchor({"m": "m16", "values": "special", "request": "split1d2"}, "special values at the production shape"),
        Anchor({"m": "m17", "values": "wide", "gemm_pad": "pad16"}, "wide values at the production shape: fused"),
        Anchor({"m": "m7", "values": "wide", "norm": "wf32"}, "wide values at the production shape: skinny"),
        Anchor({"m": "m64", "request": "split1d2", "fold": "unfolded"}, "decoupled over xn at the production shape"),
        Anchor(
            {"m": "m512", "shape": "p384", "request": "split2", "norm": "wf32full"},
            "published row count, K in two",
        ),
        Anchor({"m": "m8193", "gemm_pad": "pad128"}, "one row in the last tile at the production shape"),
        Anchor({"m": "m65536", "request": "split1d2"}, "decoupled at the largest published prefill"),
        *(
            Anchor(
                {"m": "mpacked2g", "shape": "s48", "gemm_pad": "pad128", "fold": fold, "request": request},
                f"every tensor of rows passes 2^31 elements: {path}",
            )
            for fold, request, path in (
                ("folded", "auto", "fused"),
                ("unfolded", "auto", "resident"),
                ("unfolded", "split2", "norm, split-K and reduce"),
                ("unfolded", "split1d2", "norm with xn, decoupled"),
            )
        ),
        *(
            Anchor(
                {"m": m, "shape": "s48", "gemm_pad": "pad16", "fold": fold, "row_padding": "rowsfar"},
                f"rows of the inputs are 2^31 elements apart: {path}",
            )
            for m, fold, path in (
                ("m3", "folded", "skinny"),
                ("m17", "folded", "fused"),
                ("m17", "unfolded", "norm"),
                ("m257", "unfolded", "resident"),
            )
        ),
        Anchor(
            {"m": "m17", "shape": "hc2", "request": "split1d2", "gemm_pad": "pad16", "row_padding": "rowsfar"},
            "the same on the decoupled path, with a row tail and a dead column tile at once",
        ),
        *(
            Anchor({"m": m, "gemm_pad": pad, "fold": "unfolded", **more}, f"ragged tiles of the resident path: {why}")
            for m, pad, more, why in (
                ("m17", "pad256", {"shape": "hc2", "norm": "wf32full", "values": "special"}, "NaN, a dead column tile"),
                ("m17", "pad256", {"shape": "hc8", "injection": "injodd"}, "eight streams"),
                ("m17", "pad256", {"shape": "hs8192"}, "its widest stream"),
                ("m17", "pad256", {"shape": "r128", "values": "exact", "buffers": "rrmsonly"}, "nine column tiles"),
                ("m17", "pad256", {"shape": "s48", "norm": "wf32", "injection": "injdense"}, "waves without a tile"),
                ("m17", "pad256", {"shape": "p336"}, "production, few rows of many"),
                ("m511", "pad16", {"shape": "s48", "norm": "wf32", "row_padding": "rowspadded"}, "rows with gaps"),
            )
        ),
        *named(_K1_AXES, _K1_TELLING),
    ),
)

_K2_M = Axis(
    "m",
    (
        AxisValue("m64", 64, "production"),
        AxisValue("m0", 0, "zero", "empty output, no launch"),
        AxisValue("m16", 16, "tile boundary"),
        AxisValue("m32", 32, "tile boundary"),
        AxisValue("m48", 48, "tile boundary", "a row count that only 16-row tiles divide"),
        AxisValue("m112", 112, "tile boundary", "seven 16-row tiles"),
        AxisValue("m128", 128, "tile boundary"),
        AxisValue("m224", 224, "production", "seven 32-row tiles"),
        AxisValue("m512", 512, "production"),
        AxisValue("m8192", 8192, "production"),
        AxisValue("m65536", 65536, "production"),
        AxisValue("m4gw", lambda p: rows_past(1 << 32)(p) + 127, "beyond 2^32", "bytes of r2 pass 2^32, whole tiles"),
    ),
    apart=(
        AxisValue(
            "mpacked2gw", lambda p: rows_past_packed(1 << 31)(p) + 127, "beyond 2^31", "elements of packed pass 2^31"
        ),
    ),
)
_HEIGHT = Axis(
    "block_m",
    (
        AxisValue("hauto", None, "production"),
        AxisValue("h16", 16, "variation"),
        AxisValue("h32", 32, "variation"),
        AxisValue("h64", 64, "variation"),
        AxisValue("h128", 128, "variation"),
    ),
)
_LORA = Axis(
    "lora",
    (
        AxisValue("loraview", "view", "production", "columns 0..r of packed, row stride n_pad"),
        AxisValue("loradense", "dense", "variation", "contiguous"),
    ),
)
_OUT = Axis(
    "out",
    (
        AxisValue("outgiven", True, "production", "the caller owns the output"),
        AxisValue("outalloc", False, "production", "the op allocates its output"),
    ),
)


def _height_divides(m: Any, height: Any) -> bool:
    return height is None or callable(m) or m % height == 0


_K2_AXES = (
    _K2_M,
    shapes("p336", "p384", "s48", "hc2", "hc8", "hc8r320", "r128", "hs8192"),
    NORM,
    VALUES,
    _HEIGHT,
    _LORA,
    ROWS,
    _OUT,
)
_K2_TELLING = {
    "m32.s48.wbf16.normal.h32.loraview.rowspadded.outgiven": "rows with gaps, one workgroup",
    "m16.hc8.wf32full.normal.h16.loradense.rowsdense.outalloc": "eight streams, float32 norm weight [HC*HS]",
    "m4gw.s48.wbf16.wide.h16.loradense.rowspadded.outalloc": "16-row tiles past 2^32 bytes",
}

K2_GRID = Grid(
    axes=_K2_AXES,
    rules=(
        *SHAPE_RULES,
        with_shapes("block_m", None, 16),
        Rule(("m", "block_m"), _height_divides, "the direct K2 takes row counts that its tile divides"),
        Rule(
            ("shape", "block_m"),
            lambda shape, height: height != 128 or shape.r < 320,
            "a 128-row tile leaves too few registers for the weights of r = 320",
        ),
    ),
    anchors=(
        Anchor({"m": "m512"}, "published row count"),
        Anchor({"m": "m32", "values": "special"}, "special values at the production shape"),
        Anchor({"m": "m16", "values": "wide", "shape": "p384"}, "wide values at the production shape"),
        Anchor(
            {"m": "m64", "shape": "p384", "lora": "loradense", "norm": "wf32full"},
            "production shape, dense lora",
        ),
        Anchor({"m": "m65536"}, "the largest published prefill"),
        Anchor({"m": "mpacked2gw", "shape": "s48"}, "every tensor of rows passes 2^31 elements"),
        Anchor({"m": "m32", "shape": "s48", "row_padding": "rowsfar"}, "rows of r2 are 2^31 elements apart"),
        *named(_K2_AXES, _K2_TELLING),
    ),
)
