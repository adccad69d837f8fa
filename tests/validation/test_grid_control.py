"""A grid is credited only when it reaches the target: what the control of an entry point must not let pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import validation_fakes as fakes
from report_support import run

from validation import grid_control
from validation.grid import Anchor, Case, Grid, axis
from validation.in_process import run_case
from validation.operation import EntryPoint, Operation, SkipCase, load_operation
from validation.report.coverage import credit_lines
from validation.report.show import FORMATS
from validation.stages import Request, contract
from validation.stages.correctness import judge

ME = "test_grid_control"


class Driver:
    """Of a function ``target(rows, width)`` that refuses a width that is no multiple of 8."""

    bench: Any = None

    def prepare(self, case: Case, bench: Any, seed: int) -> dict[str, Any]:
        self.bench = bench
        if case.params["m"] > 100:
            raise SkipCase("too tall")
        return {"m": case.params["m"], "width": case.params["width"] + 0}

    def workgroups(self, inputs: dict[str, Any]) -> None:
        return None

    def run(self, inputs: dict[str, Any]) -> Any:
        self.target(inputs["m"], inputs["width"])
        self.bench.launch()
        return inputs

    def target(self, m: int, width: int) -> None:
        if width % 8:
            raise ValueError("width must be a multiple of 8")

    def check(self, inputs: dict[str, Any], outputs: Any) -> list[dict[str, Any]]:
        return fakes.FakeDriver().check(inputs, "good")


class DeafDriver(Driver):
    """Whatever the case says, it is 64 columns."""

    def prepare(self, case: Case, bench: Any, seed: int) -> dict[str, Any]:
        return super().prepare(Case(case.name, {"m": case.params["m"], "width": 64}), bench, seed)


class LenientDriver(Driver):
    """The target takes any width."""

    def target(self, m: int, width: int) -> None:
        pass


class FinickyDriver(Driver):
    """The harness refuses, before the target could."""

    def prepare(self, case: Case, bench: Any, seed: int) -> dict[str, Any]:
        if case.params["width"] % 8:
            raise RuntimeError("the harness has no such width")
        return super().prepare(case, bench, seed)


class BrokenDriver(Driver):
    """The harness cannot make the call at all."""

    def run(self, inputs: dict[str, Any]) -> Any:
        raise KeyError("a bug of the harness")


class CircumstancesDriver(Driver):
    """It makes something else of what it cannot use."""

    kind: type[Exception] = OSError

    def prepare(self, case: Case, bench: Any, seed: int) -> dict[str, Any]:
        try:
            return super().prepare(case, bench, seed)
        except grid_control.UsedError as error:
            raise self.kind("circumstances") from error


GRID = Grid((axis("m", m4=(4,), m200=(200,), m0=(0,)), axis("width", w8=(8,), w64=(64,))))
DEFAULTS = Grid((axis("m", m4=(4,), m0=(0,)), axis("width", w8=(8,))), anchors=(Anchor({"m": "m4"}, "the default"),))


def operation(driver: type[Driver], grid: Grid = GRID, invalid: Any = 12) -> Operation:
    entry = EntryPoint(
        "fake",
        "target",
        grid,
        f"{ME}:{driver.__name__}",
        (),
        lambda params: "fake",
        invalid={"width": invalid},
    )
    return Operation("fake", "Fake", (ME,), (entry,))


GOOD = operation(Driver)


def checks(made: Operation) -> dict[str, tuple[bool, str]]:
    found = grid_control.checks(made, made.entry_points[0], 0, lambda: fakes.open_bench("gfx942"), judge)
    return {check["output"]: (check["passed"], check["message"]) for check in found}


def test_a_grid_that_reaches_its_target_is_credited() -> None:
    found = checks(GOOD)
    assert list(found) == ["cover", "axis m", "axis width", "invalid width"]
    assert all(passed for passed, _ in found.values())
    assert "width = 12 fails: ValueError: width must be a multiple of 8 (target)" in found["invalid width"][1]


def test_an_axis_that_nobody_looks_at_is_named() -> None:
    found = checks(operation(DeafDriver))
    assert [name for name, (passed, _) in found.items() if not passed] == ["axis width", "invalid width"]
    assert "axis width could not be applied" in found["axis width"][1]


def test_an_invalid_value_that_passes_is_no_credit() -> None:
    found = checks(operation(LenientDriver))
    assert [name for name, (passed, _) in found.items() if not passed] == ["invalid width"]
    assert "width = 12 passes: the grid does not reach the target" in found["invalid width"][1]


def test_a_refusal_of_the_harness_is_none_of_the_target() -> None:
    with pytest.raises(RuntimeError, match="the harness has no such width"):
        checks(replace(operation(FinickyDriver), packages=("the_code_under_test",)))
    with pytest.raises(ValueError, match="multiple of 8"):
        checks(replace(GOOD, packages=("the_code_under_test",)))


def test_a_case_that_does_not_end_well_proves_no_axis() -> None:
    with pytest.raises(KeyError, match="a bug of the harness"):
        checks(operation(BrokenDriver))


@pytest.mark.parametrize("kind", [OSError, ImportError, MemoryError])
def test_circumstances_are_no_use_of_an_axis(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CircumstancesDriver, "kind", kind)
    with pytest.raises(kind, match="circumstances"):
        checks(operation(CircumstancesDriver))


def test_a_grid_that_repeats_the_defaults_earns_nothing() -> None:
    passed, said = checks(operation(Driver, DEFAULTS))["cover"]
    assert not passed
    assert "it earns nothing" in said


def test_a_grid_that_launches_nothing_earns_nothing() -> None:
    zero = Grid((axis("m", m0=(0,), m1=(0,)), axis("width", w8=(8,))))
    found = checks(operation(Driver, zero))
    assert not any(passed for passed, _ in found.values())


USES = (bool, len, int, str, list, hash, "{:d}".format, [0].__getitem__, lambda x: x + 1, lambda x: 1 - x)
USES += (lambda x: x == 1, lambda x: x < 2, lambda x: x.dtype, lambda x: {}[x])


@pytest.mark.parametrize("use", USES)
def test_nobody_can_use_the_value_that_cannot_be_used(use: Any) -> None:
    with pytest.raises(grid_control.UsedError):
        use(grid_control.UNUSABLE)


def test_what_is_not_credited_is_an_error_of_the_contract_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [task.id for task in contract.plan(Request(GOOD, f"{ME}:GOOD", "gfx942", 0))] == [
        "contract.fake.grid_control"
    ]
    monkeypatch.setitem(globals(), "DEAF", operation(DeafDriver))
    record = run_case(f"{ME}:DEAF", "gfx942", "contract.fake.grid_control", device="validation_fakes")
    assert record["status"] == "error"
    assert record["reason"].startswith("the grid is not credited: axis width could not be applied")
    assert run_case(f"{ME}:GOOD", "gfx942", "contract.fake.grid_control", device="validation_fakes")["status"] == "pass"


def test_every_entry_point_here_has_its_control() -> None:
    for name in ("hcgr", "add_rms_norm"):
        for entry in load_operation(name).entry_points:
            assert entry.invalid, f"{name}.{entry.name} names no value that it must refuse"
            assert set(entry.invalid) <= {axis.name for axis in entry.grid.axes}


@pytest.mark.parametrize(("operation_name", "entry"), [("add_rms_norm", "add_rms_norm"), ("hcgr", "combine")])
def test_real_grids_are_credited(operation_name: str, entry: str) -> None:
    record = run_case(operation_name, "gfx942", f"contract.{entry}.grid_control")
    assert (record["status"], record["reason"]) == ("pass", "")
    assert record["launches"] == []


def test_a_real_driver_that_drops_an_axis_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from hcgr_examples.add_rms_norm import driver

    def draw(self: Any, case: Case, place: Any, rng: Any) -> Any:
        return original(self, Case(case.name, {**dict(case.params), "padding": 0}), place, rng)

    original = driver.Driver.draw
    monkeypatch.setattr(driver.Driver, "draw", draw)
    monkeypatch.setattr(grid_control, "TRIES", 2)
    record = run_case("add_rms_norm", "gfx942", "contract.add_rms_norm.grid_control")
    assert record["status"] == "error"
    assert "axis padding could not be applied" in record["reason"]


def test_a_report_names_the_grids_that_no_control_credits() -> None:
    launch = {"workgroups_run": 1}

    def made(stage: str, name: str, status: str = "pass", **more: Any) -> dict[str, Any]:
        return {"id": f"{stage}.{name}", "stage": stage, "status": status, "launches": [launch], "reason": "r"} | more

    names = ("good.m1", "good.m2", "none.m1", "wrong.m1", "also.m1")
    grid = [made("correctness", name) for name in names] + [made("correctness", "empty.m0", launches=[])]
    controls = [made("contract", "good.grid_control"), made("contract", "wrong.grid_control", "error", reason="deaf")]
    stages = [{"name": "correctness", "cases": grid}, {"name": "contract", "cases": controls}]
    assert credit_lines({"stages": stages}) == [
        "grid of none, also not credited: its control was not run",
        "grid of wrong not credited: its control ended with error: deaf",
    ]
    report = run("FINE")
    for form in ("text", "markdown", "html"):
        assert "grid of fake not credited: its control was not run" in FORMATS[form](report), form
