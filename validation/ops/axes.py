"""Shapes and axes that the grids of HCGR's mixing entry points share, and the rules between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from validation.grid import Axis, AxisValue, Rule

#: Bytes of a bf16 element.
ELEMENT = 2
#: Most rows of the skinny path, by the op's specification.
DECODE_ROWS = 8
#: Rows from which an unfolded weight that nobody asks to split takes the resident path, and the widest stream of it.
RESIDENT_ROWS, RESIDENT_HS = 256, 8192
#: Granule of the tiled paths' rows: the matrix instruction's tile.
TILE = 16


class Shape(NamedTuple):
    """HC streams of HS columns, low rank r, and the row stride n_pad of packed."""

    hc: int
    hs: int
    r: int
    n_pad: int

    @property
    def width(self) -> int:
        """K = HC*HS."""
        return self.hc * self.hs


def one_pass(rows: int, shape: Shape, fold: bool) -> str:
    """The K1 path of a call of more rows than skinny takes, when nobody asks for another."""
    if fold:
        return "fused"
    return "resident" if rows >= RESIDENT_ROWS and shape.hs <= RESIDENT_HS else "split_k"


PRODUCTION = Shape(4, 2560, 320, 336)
SMALL = Shape(4, 512, 32, 48)

#: Label to shape, role and reason. The small ones keep a case cheap: HS = 512 is the narrowest stream there is.
SHAPES: dict[str, tuple[Shape, str, str]] = {
    "p336": (PRODUCTION, "production", ""),
    "p384": (Shape(4, 2560, 320, 384), "production", ""),
    "s48": (SMALL, "variation", "narrowest stream, all 16-column tiles of packed but the last live"),
    "hc2": (Shape(2, 512, 24, 48), "variation", "HC = 2, a dead column tile, r no multiple of 32"),
    "hc8": (Shape(8, 512, 40, 48), "tile boundary", "HC = 8, r + HC = n_pad: no padding column"),
    "hc8r320": (Shape(8, 1024, 320, 336), "variation", "HC = 8 at the production rank"),
    "r128": (Shape(4, 1536, 128, 144), "variation", "r = 128 and three waves a stream"),
    "hs8192": (Shape(4, 8192, 8, 16), "variation", "wide stream"),
    "hs40960": (Shape(4, 40960, 8, 16), "variation", "widest stream"),
    "n8": (Shape(4, 2560, 4, 8), "variation", "n_pad = 8: r + HC = 8, the skinny path alone"),
}
#: Shapes that are run with every other axis value; the others vary rows, fold and values.
VARIED_SHAPES = frozenset(SHAPES[name][0] for name in ("p336", "s48"))
#: Shapes whose rows cost the most to emulate.
WIDEST = SHAPES["hs40960"][0]
WIDE_SHAPES = frozenset((SHAPES["hs8192"][0], WIDEST))
#: HC = 8 at the production rank: the small HC = 8 has the other row counts.
HC8_R320 = SHAPES["hc8r320"][0]
#: Shapes at which values whose sums depend on the order cost most: each such sum is done over in order.
DEAR_SHAPES = WIDE_SHAPES | {SHAPES[name][0] for name in ("p336", "p384", "hc8r320")}
#: Row counts that every shape is run with; tile edges beside them are for the production and the small shape.
COMMON_ROWS = (0, 1, 2, 3, 8, 16, 17, 33, 64)
#: Tile edges that are run at the small shape alone: the production shape has a neighbour of each.
SMALL_ROWS = (5, 9, 15, 31, 48, 63, 112, 127, 129)
#: Ragged row counts of the resident path that any shape may be run with; covers have them in anchors.
RESIDENT_EDGES = (RESIDENT_ROWS + 1, 511)
#: Large row counts of the production shapes; the small shape is run with all of them.
PRODUCTION_ROWS = {PRODUCTION: (512, 2048, 8193, 65536), SHAPES["p384"][0]: (512, 8192, 16399)}


def shapes(*labels: str) -> Axis:
    """The axis of the shapes called ``labels``."""
    return Axis("shape", tuple(AxisValue(label, *SHAPES[label]) for label in labels))


def rows_past(limit: int) -> Any:
    """A row count at which a [M, HC*HS] bf16 tensor has passed ``limit`` bytes, whole tiles and one row more."""

    def count(params: Mapping[str, Any]) -> int:
        rows = -(-limit // (params["shape"].width * ELEMENT))
        return -(-rows // 128) * 128 + 1

    return count


def rows_past_packed(limit: int) -> Any:
    """A row count at which packed [M, n_pad] has passed ``limit`` elements, whole tiles and one row more.

    Only rrms is narrower (and not of use here: it takes HC of ten times as many rows).
    """

    def count(params: Mapping[str, Any]) -> int:
        return -(-limit // (params["shape"].n_pad * 128)) * 128 + 1

    return count


NORM = Axis(
    "norm",
    (
        AxisValue("wbf16", ("bfloat16", "shared"), "production"),
        AxisValue("wf32", ("float32", "shared"), "production"),
        AxisValue("wbf16full", ("bfloat16", "full"), "variation", "norm weight [HC*HS]"),
        AxisValue("wf32full", ("float32", "full"), "variation", "norm weight [HC*HS]"),
    ),
)
VALUES = Axis(
    "values",
    (
        AxisValue("normal", "normal", "production"),
        AxisValue("exact", "exact", "variation", "small integers: r2, rrms and packed must be right to the bit"),
        AxisValue("wide", "wide", "variation", "magnitudes from 2^-24 to 2^24"),
        AxisValue("special", "special", "variation", "NaN, infinities, -0, denormals, largest values in some rows"),
        AxisValue("zeros", "zero_rows", "zero", "every third token is zero: rrms comes from eps alone"),
        AxisValue("mean", "large_mean", "variation", "a mean of 64 under a unit spread"),
    ),
)
INJECTION = Axis(
    "injection",
    (
        AxisValue("injview", "view", "production", "columns r..r+HC of a tensor of row stride n_pad"),
        AxisValue("injdense", "dense", "variation", "contiguous"),
        AxisValue("injodd", "odd", "odd", "rows 13 elements apart"),
    ),
)
#: A view whose span passes 32 bits though it holds little: neither row times stride nor the stride itself fits.
FAR_ROWS = AxisValue("rowsfar", 1 << 31, "beyond 2^31", "activation rows have 2^31 elements between them")
ROWS = Axis(
    "row_padding",
    (
        AxisValue("rowsdense", 0, "production"),
        AxisValue("rowspadded", 8, "variation", "activation rows have 8 elements between them"),
    ),
    apart=(FAR_ROWS,),
)
#: Rows of the resident path that no other value is paired with.
M257 = AxisValue("m257", 257, "tile boundary", "just enough rows for the resident path, and one in the last tile")
M511 = AxisValue("m511", 511, "odd", "one row short of whole tiles")
M2047 = AxisValue("m2047", 2047, "odd", "one row short of whole tiles, with as few splits as 2048 have")
FOLD = Axis("fold", (AxisValue("folded", True, "production"), AxisValue("unfolded", False, "production")))


def is_long(m: Any) -> bool:
    """Whether a raw value of the row axis is a large row count."""
    return callable(m) or m >= 512


def _rows_with_shape(m: Any, shape: Shape) -> bool:
    if not callable(m) and m in RESIDENT_EDGES:
        return True
    if shape in WIDE_SHAPES:
        return not callable(m) and m in ((0, 1, 17) if shape == WIDEST else (0, 1, 3, 16, 17))
    if shape == HC8_R320:
        return m in (0, 1, 17, 33)
    if is_long(m):
        return shape == SMALL or (not callable(m) and m in PRODUCTION_ROWS.get(shape, ()))
    return m in COMMON_ROWS or shape == SMALL or (shape == PRODUCTION and m not in SMALL_ROWS)


def with_shapes(axis: str, *common: Any) -> Rule:
    """Values of ``axis`` other than ``common`` go with :data:`VARIED_SHAPES` alone: each costs kernels to compile."""
    return Rule(
        ("shape", axis),
        lambda shape, value: shape in VARIED_SHAPES or value in common,
        f"all values of {axis} are run at two shapes, the common ones at every shape",
    )


def small_with(axis: str, *common: Any) -> Rule:
    """Values of ``axis`` other than ``common`` go with :data:`DEAR_SHAPES` in anchors alone."""
    return Rule(
        ("shape", axis),
        lambda shape, value: shape not in DEAR_SHAPES or value in common,
        f"values of {axis} that are asked for meet all others at the small shapes, and the large shapes in anchors",
        anchored=True,
    )


#: What bounds the cost of a default run.
SHAPE_RULES = (
    Rule(
        ("m", "shape"),
        _rows_with_shape,
        "tile edges and large row counts are run at a production shape and a small one, wide streams with few rows, "
        "2^31 and 2^32 bytes at the small shape",
    ),
    Rule(
        ("m", "shape"),
        lambda m, shape: not is_long(m) or shape == SMALL,
        "large row counts meet every other value at the small shape, and a production shape in anchors",
        anchored=True,
    ),
    Rule(
        ("shape", "values"),
        lambda shape, values: shape not in DEAR_SHAPES or values not in ("special", "wide"),
        "special and wide values meet every other value at the small shapes, and the large ones in anchors",
        anchored=True,
    ),
    with_shapes("norm", ("bfloat16", "shared"), ("float32", "full")),
    Rule(
        ("m", "values"),
        lambda m, values: values not in ("zero_rows", "large_mean") or (not callable(m) and m <= 17),
        "zero rows and large means are run with few rows",
    ),
    Rule(
        ("m", "values"),
        lambda m, values: values != "special" or not is_long(m),
        "special values are run with up to 512 rows",
    ),
)

#: Limits of every kernel of the op on :class:`validation.stages.isa.Resources`: no spills, and no flush of a whole
#: cache, since what workgroups publish to each other goes past the caches.
KERNEL_LIMITS = {"vgpr_spills": 0, "sgpr_spills": 0, "scratch_bytes": 0, "cache_flushes": 0}
