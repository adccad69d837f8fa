"""What a case makes of the op's planner: no tuned table, one that asks for the decoupled path, or fewer CUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from hcgr import arch as arch_table
from hcgr.plan import choose, k1_limits
from hcgr.plan.k1 import TILE, K1DecoupledPlan
from hcgr.tuned import table
from validation.ops.axes import Shape

#: Compute units of the smallest gfx942 part.
FEW_CUS = 80
#: Waves of the tiles that a decoupled entry may be lowered to.
_WAVES = (4, 2, 1)
_STAGES = 2


def decoupled_table(arch: str, shape: Shape, live: int, fold: bool) -> dict[str, dict[str, table.Section]]:
    """A tuned table with one entry: the decoupled path, in the fewest column groups that every tile can be built in.

    Raises:
        LookupError: if there is none for the shape.
    """
    target = arch_table.get(arch)
    dma = 16 if 16 in target.lds_dma_bytes else 4
    tiles = -(-live // TILE)
    for groups in (n for n in range(1, tiles + 1) if tiles % n == 0):
        plans = [
            K1DecoupledPlan(shape.hc, shape.hs, shape.n_pad, live, fold, _STAGES, groups, 1, waves, target.mfma_k, dma)
            for waves in _WAVES
        ]
        if any(problem for plan in plans for problem in k1_limits.decoupled_problems(plan, target)):
            continue
        entry = {
            "method": "decoupled",
            "stages": _STAGES,
            "column_groups": groups,
            "row_tiles": 1,
            "waves": _WAVES[0],
            "hc": shape.hc,
            "hidden": shape.width,
            "n_pad": shape.n_pad,
            "cus": target.cus,
            "evidence": "modelled",
            "command": "made for a validation case",
        }
        return table.parse({arch: {"k1": {"1": entry}}})
    raise LookupError(f"no decoupled plan for {shape} on {arch}")


@contextmanager
def planned(plan: str, arch: str, shape: Shape, live: int, fold: bool) -> Iterator[None]:
    """Within the block the planner is what the case's ``plan`` says; see the axis of that name."""
    with ExitStack() as stack:
        if plan != "shipped":
            entries = decoupled_table(arch, shape, live, fold) if plan == "decoupled" else {}
            stack.enter_context(mock.patch.object(table, "loaded", return_value=entries))
        if plan == "cus80":
            stack.enter_context(mock.patch.object(arch_table, "cus_of_device", return_value=FEW_CUS))
        choose.k1.cache_clear()
        choose.k2.cache_clear()
        try:
            yield
        finally:
            choose.k1.cache_clear()
            choose.k2.cache_clear()
