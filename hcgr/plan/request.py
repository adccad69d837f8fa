"""What a caller asks of the planner, and how it says no."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch

from hcgr.plan.k1 import TILE
from hcgr.plan.k1_limits import FUSED_TILES
from hcgr.plan.skinny import MAX_TOKENS
from hcgr.requirements import Problem
from hcgr.tuned import table

#: Tile heights of the tiled K1 paths, tallest first; the direct K1 takes row counts that one of them divides.
K1_HEIGHTS = tuple(sorted({TILE * row_tiles * waves for row_tiles, waves in FUSED_TILES}, reverse=True))
#: Rows of the merged weight are rounded up to this where the op merges it itself.
MERGED_ROW_UNIT = 64


@dataclass(frozen=True)
class Request:
    """What a caller of the direct K1 asks for.

    Attributes:
        split_k: "auto"; 1 for the decoupled path; parts of K above that.
        stages: Depth of the decoupled pipeline; ``None`` leaves it to the plan.
        tile_rows: Tile height, one of :data:`K1_HEIGHTS`; ``None`` likewise.
        use_tuned: Whether the tuned table may choose.
    """

    split_k: int | Literal["auto"] = "auto"
    stages: int | None = None
    tile_rows: int | None = None
    use_tuned: bool = True

    @property
    def explicit(self) -> bool:
        """Whether anything but the table is asked for."""
        return self.split_k != "auto" or self.stages is not None or self.tile_rows is not None


AUTO = Request()


class NoPlanError(ValueError):
    """Nothing can be built for a call.

    Attributes:
        problem: What is wrong with the call, by argument.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def tile_height(
    split_k: Any, stages: Any, block_m: Any, dn_block_m: Any, sk_block_m: Any
) -> tuple[Literal["block_m", "dn_block_m", "sk_block_m"], Any]:
    """Which of a direct K1's tile heights holds for the path that it asks for, by name, and its value."""
    if split_k == 1 or (split_k == "auto" and stages is not None):
        return ("block_m", block_m) if dn_block_m is None else ("dn_block_m", dn_block_m)
    return ("block_m", block_m) if sk_block_m is None else ("sk_block_m", sk_block_m)


def request_problems(request: Request, height_name: str = "block_m") -> Iterator[Problem]:
    """What is wrong with a request, whatever the shape and the architecture.

    Args:
        height_name: The argument that its tile height was given by.
    """
    if request.split_k != "auto" and not _is_count(request.split_k, 1):
        yield Problem("split_k", '"auto" or a positive integer', repr(request.split_k))
    if request.stages is not None and not _is_count(request.stages, 2):
        yield Problem("stages", "None or an integer of at least 2", repr(request.stages))
    elif request.stages not in (None, 2) and request.split_k not in ("auto", 1):
        accepted = "None or 2 with split_k above 1, whose kernels are two stages deep; deeper with split_k=1"
        yield Problem("stages", accepted, f"{request.stages} with split_k={request.split_k!r}")
    if request.tile_rows is not None and request.tile_rows not in K1_HEIGHTS:
        yield Problem(height_name, f"None or one of {', '.join(map(str, K1_HEIGHTS))}", repr(request.tile_rows))


def is_skinny(tokens: int, folded: bool, request: Request = AUTO) -> bool:
    """Whether a call takes the skinny path."""
    return folded and not request.explicit and tokens <= MAX_TOKENS


def merged_rows(w_down: torch.Tensor, w_inject: torch.Tensor | None, merged: torch.Tensor | None) -> int:
    """n_pad of a call: the merged weight's rows, or those that merging on the fly gives."""
    if merged is not None:
        return merged.shape[0]
    used = w_down.shape[0] + (0 if w_inject is None else w_inject.shape[0])
    return -(-used // MERGED_ROW_UNIT) * MERGED_ROW_UNIT


def live_columns(lowrank: int, hc: int, n_pad: int) -> int:
    """Columns of packed in use in a direct K1, which is not told whether its weight has inject rows."""
    return min(lowrank + hc, n_pad)


def applies(entry: table.Entry, hc: int, hs: int, cus: int) -> bool:
    """Whether a table entry is for this shape and device, and names a tile."""
    return (entry["hc"], entry["hidden"], entry["cus"]) == (hc, hc * hs, cus) and entry["method"] != "heuristic"


class DiscardedPlanWarning(RuntimeWarning):
    """An entry of the tuned table, made for just this shape, names a plan that cannot be built: the table is wrong."""


def discarded(kernel: str, arch: str, tokens: int, problem: Problem | str) -> None:
    """Say that the heuristic plans a call for which there is an entry; once a shape, for plans are cached."""
    message = f"the tuned {kernel} plan for {tokens} rows on {arch} cannot be built and is discarded: {problem}"
    warnings.warn(message, DiscardedPlanWarning, stacklevel=2)
