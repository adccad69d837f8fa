"""Which token rows of a large call run, and which workgroups of each launch handle them.

Rows are chosen in blocks of :data:`BLOCK`, which every kernel of the op tiles without sharing a workgroup between
blocks: tiles are at most 128 rows high, and a reduce workgroup handles 256 vectors of 8 columns, n_pad being a
multiple of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hcgr.dispatch import Launch
from hcgr.plan.k1 import REDUCE_LANES
from validation.kit import contiguous_spans, edge_rows
from validation.operation import Bench, Workgroup
from validation.ops.axes import ELEMENT, Shape

BLOCK = 128
#: Rows times K of a call that runs whole: a second or two of emulation.
MOST_ELEMENTS = 6 << 20


def choose_rows(m: int, shape: Shape, whole: bool = False) -> list[int] | None:
    """Rows of the first, a middle and the last block, and where r2 crosses 2^31 and 2^32 bytes; ``None``: all."""
    if whole or m * shape.width <= MOST_ELEMENTS:
        return None
    return edge_rows(m, ELEMENT * shape.width, BLOCK)


def _row_tiles(height: int, per_tile: int, spans: Sequence[slice]) -> list[Workgroup]:
    """Workgroups of tiles of ``height`` rows, each tile ``per_tile`` neighbours along x."""
    tiles = [tile for span in spans for tile in range(span.start // height, -(-span.stop // height))]
    return [(tile * per_tile + part, 0, 0) for tile in tiles for part in range(per_tile)]


def _reduce(plan: Any, spans: Sequence[slice], grid: Workgroup) -> list[Workgroup]:
    vectors = plan.n_pad // 8
    return [
        (x, 0, 0)
        for span in spans
        for x in range(span.start * vectors // REDUCE_LANES, min(grid[0], -(-span.stop * vectors // REDUCE_LANES)))
    ]


def _k2(plan: Any, spans: Sequence[slice], grid: Workgroup) -> list[Workgroup]:
    return [(x, y, 0) for x, _, _ in _row_tiles(plan.block_rows, 1, spans) for y in range(grid[1])]


#: Kernel module to its workgroups for some spans of rows.
_WORKGROUPS: dict[str, Callable[[Any, Sequence[slice], Workgroup], list[Workgroup]]] = {
    "combine": lambda plan, spans, grid: _row_tiles(plan.rows, plan.column_tiles, spans),
    "k1_combine_norm": lambda plan, spans, grid: _row_tiles(1, 1, spans),
    "k1_fused": lambda plan, spans, grid: _row_tiles(plan.rows, plan.splits, spans),
    "k1_split_k": lambda plan, spans, grid: _row_tiles(plan.tile.rows, plan.splits, spans),
    "k1_resident": lambda plan, spans, grid: _row_tiles(plan.rows, plan.splits, spans),
    "k1_decoupled": lambda plan, spans, grid: _row_tiles(plan.rows, plan.column_groups, spans),
    "k1_reduce": _reduce,
    "k2_up_gate_mix": _k2,
}


def workgroups_of(launch: Launch, spans: Sequence[slice], grid: Workgroup) -> list[Workgroup]:
    """The workgroups of a launch that handle ``spans`` of its rows.

    Raises:
        LookupError: for a kernel of which nobody has said how it maps rows to workgroups.
    """
    name = launch.kernel.rpartition(".")[2]
    if name not in _WORKGROUPS:
        raise LookupError(f"no rule from rows to workgroups for kernel {launch.kernel}; add it to {__name__}")
    return _WORKGROUPS[name](launch.plan, spans, grid)


@dataclass
class Recorder:
    """Observes launches as hcgr issues them, and answers which of their workgroups run.

    ``rows`` are those to run, ``None`` for all. ``launches`` hold the very tensors that the kernels were given; the
    bench is told what each launch calls them.
    """

    bench: Bench
    rows: list[int] | None
    launches: list[Launch] = field(default_factory=list)

    def __call__(self, launch: Launch) -> None:
        self.launches.append(launch)
        for name, tensor in launch.tensors.items():
            self.bench.named(tensor, name)

    def workgroups(self, kernel: str, grid: Workgroup) -> list[Workgroup] | None:
        """Answers a session; the launch in question is the last one observed."""
        if self.rows is None:
            return None
        return workgroups_of(self.launches[-1], contiguous_spans(self.rows), grid)

    def of(self, *kernels: str) -> list[Launch]:
        """Launches of the named kernel modules."""
        return [launch for launch in self.launches if launch.kernel.rpartition(".")[2] in kernels]
