"""A fake operation that is wrong in one corner of its space: 37 rows or more, strided, with special values."""

from __future__ import annotations

from typing import Any

from tests.validation.validation_fakes import FakeBench
from validation.cases import comparison
from validation.grid import Between, Case, Grid, Rule, axis
from validation.operation import EntryPoint, Operation

GRID = Grid(
    axes=(
        axis("m", Between("m", 0, 512), m1=(1, "production"), m64=(64,), m2g=(lambda params: 1 << 20, "beyond 2^31")),
        axis("padding", dense=(0, "production"), strided=(8,), wide=(64,)),
        axis("values", normal=("normal", "production"), special=("special",), wideexp=("wide",)),
    ),
    rules=(Rule(("m", "values"), lambda m, values: values != "wide" or m != 1, "no reason at all"),),
)


class Driver:
    """Launches what it should, and fails where the operation is wrong."""

    def prepare(self, case: Case, bench: FakeBench, seed: int) -> tuple[Case, FakeBench]:
        return case, bench

    def workgroups(self, inputs: Any) -> None:
        return None

    def run(self, inputs: tuple[Case, FakeBench]) -> Case:
        case, bench = inputs
        if case.params["m"]:
            bench.launch()
        return case

    def check(self, inputs: Any, outputs: Case) -> list[dict[str, Any]]:
        p = outputs.params
        wrong = p["m"] >= 37 and p["padding"] > 0 and p["values"] == "special"
        said = f"error/bound 3 with {p['m']} rows" if wrong else "within bound"
        return [comparison("out", "bound", not wrong, said, elements=1)]


OPERATION = Operation(
    "corner", "Wrong in one corner", ("strategy_fakes",),
    (EntryPoint("fake", "fake_function", GRID, "strategy_fakes:Driver", (), lambda params: "only"),),
)  # fmt: skip
