"""What drivers are made of: rows at the edges, and a call driver's checks, of a function that needs no kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch

from oracle import bounds
from oracle.guards import poison
from validation.devices.emulator import EmulatorBench
from validation.grid import Case
from validation.kit import Call, CallDriver, Placer, contiguous_spans
from validation.operation import SkipCase

COLUMNS = 16
TALL = (1 << 31) // COLUMNS  # rows whose bytes in bf16 are 2^32


def double(x: torch.Tensor, out: torch.Tensor) -> tuple[torch.Tensor]:
    """out = 2 x, of the rows that exist."""
    for span in contiguous_spans(Doubling.rows):
        out[span] = 2 * x[span]
    return (out,)


class Doubling(CallDriver):
    """Doubles, in the rows that it is told to."""

    function = double
    outputs = ("out",)
    block = 4
    row_bytes = staticmethod(lambda params: 2 * COLUMNS)
    most_rows = 8
    legal = Case("m5", {"m": 5})
    rows: ClassVar[list[int]] = []
    factor = 2.0

    def draw(self, case: Case, place: Placer, rng: torch.Generator) -> Call:
        values = {"x": torch.randn((place.count, COLUMNS), generator=rng).bfloat16()}
        arguments = {"x": place.rows("x", values["x"], COLUMNS + 8)}
        return Call(arguments | {"out": place.poisoned("out", COLUMNS, torch.bfloat16)}, values, place)

    def oracle(self, call: Call, outputs: dict[str, torch.Tensor]) -> dict[str, bounds.Bounded]:
        due = call.values["x"].double() * self.factor
        return {"out": bounds.settle(due, torch.zeros_like(due), torch.bfloat16)}


def judged(
    m: int, spoil: Callable[[dict[str, torch.Tensor], Call], Any] = lambda outputs, call: None, factor: float = 2.0
) -> dict[str, str]:
    """Tiers that failed, with their messages."""
    driver, bench = Doubling(), EmulatorBench("gfx942")
    driver.factor = factor
    call = driver.prepare(Case(f"m{m}", {"m": m}), bench, 1)
    Doubling.rows = call.place.chosen
    outputs = driver.run(call)
    spoil(outputs, call)
    checks = driver.check(call, outputs)
    assert [check["tier"] for check in checks][:1] == ["form"]
    return {check["tier"]: check["message"] for check in checks if not check["passed"]}


@pytest.mark.parametrize("m", [0, 1, 5, 8, 9, TALL + 5])
def test_a_right_function_passes(m: int) -> None:
    assert judged(m) == {}


def test_each_way_to_be_wrong_is_told_apart() -> None:
    assert set(judged(5, factor=2.1)) == {"bound"}
    assert "1 elements of rows 0..4 were never written, first [3, 7]" in judged(5, _unwritten)["written"]
    assert "is not the caller's tensor" in judged(5, _another)["form"]
    assert "no workgroup that ran owns it" in judged(TALL + 5, _beside)["written"]


def _unwritten(outputs: dict[str, torch.Tensor], call: Call) -> None:
    poison(outputs["out"][3, 7:8])


def _another(outputs: dict[str, torch.Tensor], call: Call) -> None:
    outputs["out"] = outputs["out"].clone()


def _beside(outputs: dict[str, torch.Tensor], call: Call) -> None:
    outputs["out"][call.place.spans[0].stop] = 1.0


def test_a_tall_call_runs_at_its_edges_only() -> None:
    driver = Doubling()
    call = driver.prepare(Case("tall", {"m": TALL + 5}), EmulatorBench("gfx942"), 0)
    edges = {0, TALL // 2, TALL // 2 + 2, TALL, TALL + 4}  # first, 2^31 bytes, middle, 2^32 bytes, last
    assert edges <= set(call.place.chosen)
    assert call.place.count <= 4 * len(edges)
    assert driver.workgroups(call) == [(group, 0, 0) for group in sorted({row // 4 for row in call.place.chosen})]
    assert all(row in call.place.chosen for group in driver.workgroups(call) or [] for row in _rows(group[0]))
    assert driver.workgroups(driver.prepare(Doubling.legal, EmulatorBench("gfx942"), 0)) is None


def _rows(group: int) -> range:
    return range(group * 4, min(group * 4 + 4, TALL + 5))


def test_without_sparse_memory_a_tall_call_is_skipped() -> None:
    bench = EmulatorBench("gfx942")
    bench.sparse = False
    with pytest.raises(SkipCase, match="need sparse memory"):
        Doubling().prepare(Case("tall", {"m": TALL}), bench, 0)
