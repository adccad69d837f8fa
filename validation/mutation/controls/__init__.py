"""Positive controls: what the validator itself must refuse, or must contain, whatever the code under test does.

A loosened bound or a removed grid case makes no kernel fail. These checks see it: they plant faults that the oracle
must find, cap its bounds by formulas of their own, and hold the grid, the contract and the plans against tables that
are written here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from validation.mutation.controls import grids, judges, plans, scenarios, tolerances

Run = Callable[[str], list[str]]


@dataclass(frozen=True)
class Control:
    """``run(arch)`` returns what is wrong; ``check`` is the name under which a kill is counted."""

    check: str
    run: Run


CONTROLS: dict[str, Control] = {
    "bounds": Control("tolerance-control", tolerances.bounds_within_caps),
    "planted": Control("tolerance-control", tolerances.planted_faults),
    "judge": Control("tolerance-control", judges.judge_fails),
    "grid-axes": Control("grid-control", grids.axes),
    "grid-pairs": Control("grid-control", grids.pairs),
    "grid-contract": Control("grid-control", grids.contract_rows),
    "grid-paths": Control("grid-control", grids.paths),
    "grid-protocol": Control("grid-control", scenarios.scenarios),
    "plans": Control("plan-check", plans.plans),
    "table": Control("plan-check", plans.table_entries),
}
