"""The calls of ``combine_and_mix`` whose traffic, instructions and resources the cost stage counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from validation.operation import CostCase
from validation.ops.axes import PRODUCTION, SHAPES, Shape

_P384 = SHAPES["p384"][0]
#: A rank whose merged weight has more columns than two stages of gfx942's LDS hold.
_R512 = Shape(4, 2560, 512, 528)

#: Published figures of the op on an MI355X, HC=4, HS=2560, r=320, n_pad=336, folded, graph replay: rows to
#: (five-stage, two-stage) in microseconds.
PUBLISHED_US: Mapping[int, tuple[float, float]] = {
    1: (31.5, 21.0),
    2: (36.1, 19.3),
    4: (36.5, 26.6),
    8: (35.1, 33.0),
    16: (35.0, 28.8),
    32: (35.3, 28.8),
    512: (58.7, 51.0),
    1024: (75.9, 76.3),
    2048: (113.4, 106.8),
    4096: (194.0, 184.5),
    8192: (363.6, 339.2),
    16384: (673.5, 618.8),
    32768: (1294.7, 1324.2),
    65536: (2598.1, 2636.4),
}
#: (rows from which it holds, most bytes moved as a multiple of the compulsory traffic).
LIMITS = ((2048, 1.20), (512, 1.35))
#: Rows of one measurement: a whole number of tiles of every kernel.
BLOCK = 128
#: The `split_k` of a direct K1 for the decoupled path, which no plan picks at the production shape: budgeted like the
#: others, within no limit.
DECOUPLED = 1
#: The row count at which two blocks are measured beside one, to show that traffic grows by rows alone.
TWO_BLOCKS = 8192


def limit(m: int) -> float | None:
    """The largest traffic ratio accepted, whatever the weight; ``None`` where there is none."""
    return next((most for rows, most in LIMITS if m >= rows), None)


def _case(m: int, shape: Shape, fold: bool, why: str, split_k: int | str = "auto") -> CostCase:
    blocks = (m,) if m <= BLOCK else (BLOCK, 2 * BLOCK) if m == TWO_BLOCKS and fold else (BLOCK,)
    params: dict[str, Any] = {"m": m, "shape": shape, "fold": fold, "blocks": blocks, "split_k": split_k}
    name = f"m{m}.n{shape.n_pad}.{'folded' if fold else 'unfolded'}{'.decoupled' if split_k == DECOUPLED else ''}"
    return CostCase(name, params, why, timeout_s=300.0)


def cases(arch: str) -> Sequence[CostCase]:
    """The same calls on every arch: published row counts folded; unfolded three of them, and few rows, which are split;
    r = 512; K1's decoupled path at one, as the direct K1 takes it."""
    return (
        *(_case(m, PRODUCTION, True, "a published row count") for m in PUBLISHED_US),
        *(_case(m, _P384, False, "an unfolded weight") for m in (512, 2048, 8192)),
        _case(128, _P384, False, "few rows of an unfolded weight, which are split and read R2 once more"),
        _case(2048, _R512, True, "more columns than fit the LDS of gfx942"),
        _case(2048, PRODUCTION, True, "the decoupled path, which stores R2 and reads it again", DECOUPLED),
    )
