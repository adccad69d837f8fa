"""The protocol stage: when a scenario passes, when a broken variant counts as caught, and what the report checks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.validation import protocol_fakes as fakes
from validation import devices
from validation.cases import Outcome, Task, case_record
from validation.mutation.edit import EditError
from validation.operation import Operation
from validation.protocol import AsmEdit, Scenario, Setting, standard_settings, stress_settings
from validation.report.protocol import protocol_lines, protocol_problems
from validation.runner import Pools
from validation.stages import Request, protocol, stage


class Context:
    """What the stage asks of a worker."""

    arch = "gfx942"

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def operation(self, name: str) -> Operation:
        return self._operation

    @contextmanager
    def bench(self) -> Iterator[fakes.Bench]:
        yield fakes.Bench()


def operation(*scenarios: Scenario) -> Operation:
    return Operation("fake", "A fake", ("tests",), (), protocol=scenarios)


def request(*scenarios: Scenario, seed: int = 0) -> Request:
    return Request(operation(*scenarios), "fake", "gfx942", seed)


def run(task: Task, *scenarios: Scenario) -> dict[str, Any]:
    value = protocol.execute(task.payload, Context(operation(*scenarios)))
    return case_record(task, Outcome(value), f"hcgr-validate --arch gfx942 --case {task.id}")


def ends(name: str, *teeth: str) -> list[dict[str, Any]]:
    """Records of a scenario and of its teeth."""
    made = fakes.scenario(name, *(fakes.TEETH[tooth] for tooth in teeth))
    return [run(task, made) for task in protocol.plan(request(made))]


# -- the code as it is -------------------------------------------------------------------------------------------------
def test_a_good_scenario_passes_and_says_under_what() -> None:
    (record,) = ends("good")
    assert (record["status"], record["reason"]) == ("pass", "")
    runs = record["protocol"]["runs"]
    assert [(r["schedule"].partition(":")[0], r["completion"]) for r in runs] == [
        ("in-order", "earliest"),
        ("reversed", "latest"),
        ("random", "earliest"),
    ]
    assert runs[2]["seed"] == int(runs[2]["schedule"].partition(":")[2])
    assert [r["launches"] for r in runs] == [1, 1, 1]
    assert {c["output"]: c["message"] for c in record["comparisons"]} == {
        "out": "as due, 3 times",
        "guard": "as due, 3 times",
    }
    assert list(protocol_problems(record)) == []


@pytest.mark.parametrize("name", ["idle", "uncompared"])
def test_nothing_launched_or_compared_is_no_pass(name: str) -> None:
    (record,) = ends(name)
    assert record["status"] == "error"
    assert "nothing was launched or nothing was compared under in-order/weak/earliest" in record["reason"]


def test_a_failure_names_the_run_and_how_to_repeat_it_alone() -> None:
    (record,) = ends("wrong")
    assert record["status"] == "fail"
    assert "1 of 3 runs: value under reversed/weak/latest: out: 7.0, want 8.0" in record["reason"]
    assert "--case protocol.wrong@reversed/weak/latest" in record["reason"]
    alone = protocol.find(request(fakes.scenario("wrong")), "protocol.wrong@reversed/weak/latest")
    repeated = run(alone, fakes.scenario("wrong"))
    assert (repeated["status"], len(repeated["protocol"]["runs"])) == ("fail", 1)
    other = protocol.find(request(fakes.scenario("wrong")), "protocol.wrong@in-order/weak/earliest")
    assert run(other, fakes.scenario("wrong"))["status"] == "pass"


def test_our_own_exception_is_no_result() -> None:
    with pytest.raises(RuntimeError, match="the scenario itself is broken"):
        protocol._run(fakes.scenario("broken_scenario"), Setting("in-order"), Context(operation()), ("hcgr",))


def test_an_exception_of_the_code_under_test_breaks_a_promise() -> None:
    (record,) = ends("refused")
    assert record["status"] == "fail"
    assert "contract under in-order/weak/earliest: ValueError: a legal call was refused" in record["reason"]


# -- broken variants ---------------------------------------------------------------------------------------------------
def test_a_variant_is_tried_until_the_check_that_it_aims_at_catches_it() -> None:
    _, record = ends("good", "caught")
    tooth = record["protocol"]["tooth"]
    assert record["status"] == "pass"
    assert (tooth["caught_by"], tooth["caught_under"]) == (["value"], "reversed/weak/latest")
    assert len(record["protocol"]["runs"]) == 2
    assert list(protocol_problems(record)) == []


@pytest.mark.parametrize(
    ("tooth", "words"),
    [
        ("survives", "SURVIVED 3 runs: racecheck must catch it, nothing noticed"),
        ("by_another", "SURVIVED 3 runs: racecheck must catch it, only contract noticed"),
    ],
)
def test_a_surviving_variant_fails_the_stage(tooth: str, words: str) -> None:
    _, record = ends("good", tooth)
    assert (record["status"], words in record["reason"]) == ("fail", True), record["reason"]


def test_a_slip_in_a_patch_is_no_catch() -> None:
    """Else a variant that aims at the contract would pass by not running at all."""
    with pytest.raises(NameError, match="ValueErrer"):
        ends("refused", "slips")


@pytest.mark.parametrize("tooth", ["does_not_apply", "applies_twice"])
def test_a_patch_that_does_not_fit_is_an_error(tooth: str) -> None:
    with pytest.raises(EditError, match="must occur once"):
        ends("good", tooth)


@pytest.mark.parametrize(
    ("tooth", "words"),
    [
        ("asm_ambiguous", "occurs 2 times between store v1 and arrive, must occur once"),
        ("asm_elsewhere", "no kernel named like other_ was launched"),
    ],
)
def test_an_assembly_patch_that_does_not_fit_is_an_error(tooth: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ends("good", tooth)


def test_unchanged_machine_code_is_an_error_even_if_something_notices() -> None:
    _, record = ends("good", "same_code")
    assert (record["status"], record["reason"]) == (
        "error",
        "the variant's machine code is the original's: it breaks nothing",
    )


def test_changed_machine_code_is_named() -> None:
    _, record = ends("good", "other_code")
    assert record["status"] == "pass"
    assert record["protocol"]["tooth"]["changed_kernels"] == ["fake_kernel"]
    _, record = ends("good", "asm")
    assert record["protocol"]["tooth"]["changed_kernels"] == ["fake_kernel"]


def test_a_variant_that_cannot_be_imported_is_an_error() -> None:
    with pytest.raises(NameError):
        ends("good", "crash")


def test_a_variant_that_launches_nothing_is_an_error() -> None:
    _, record = ends("idle", "survives")
    assert (record["status"], record["reason"]) == ("error", "the variant launched nothing")


def test_assembly_edits_take_out_the_one_instruction() -> None:
    edit = AsmEdit("k", "wait", "store", "arrive")
    assert edit.applied_to("store 1\nwait\nstore 2\n  wait // x\narrive\nwait\n", "k") == (
        "store 1\nwait\nstore 2\narrive\nwait\n"
    )
    for text in ("store\narrive\n", "wait\narrive\n", "store\nwait\n"):
        with pytest.raises(ValueError, match="occurs 0 times"):
            edit.applied_to(text, "k")


# -- names -------------------------------------------------------------------------------------------------------------
def test_names_that_do_not_exist_say_what_does() -> None:
    made = request(fakes.scenario("good", fakes.TEETH["caught"]))
    for case_id, words in {
        "protocol.absent": "no protocol scenario 'absent' .there are: good",
        "protocol.good.absent": "has no tooth 'absent' .it has: caught",
        "protocol": "must look like protocol.<scenario>",
        "protocol.good@nonsense": "must look like random:7/weak/latest",
        "protocol.good@in-order/strong/latest": "must look like random:7/weak/latest",
    }.items():
        with pytest.raises(LookupError, match=words):
            protocol.find(made, case_id)


def test_seeds_follow_the_run_and_settings_have_distinct_names() -> None:
    first, second = (protocol.plan(request(fakes.scenario("good"), seed=seed))[0] for seed in (0, 1))
    assert first.payload["settings"] != second.payload["settings"]
    assert first.payload["settings"] == protocol.plan(request(fakes.scenario("good")))[0].payload["settings"]
    for made in (standard_settings, stress_settings):
        few, many = made("default", 5), made("full", 5)
        assert set(few) < set(many) or len(few) < len(many)
        assert len(set(map(str, many))) == len(many)
        assert [Setting.parse(str(setting)) for setting in many] == many


# -- the report --------------------------------------------------------------------------------------------------------
def test_the_report_does_not_believe_an_edited_record() -> None:
    real, broken = ends("good", "other_code")

    def change(record: dict[str, Any], **changes: Any) -> list[str]:
        edited = copy.deepcopy(record)
        for path, value in changes.items():
            *way, last = path.split("__")
            place: Any = edited["protocol"]
            for step in way:
                place = place[int(step) if step.isdigit() else step]
            place[last] = value
        return list(protocol_problems(edited))

    assert "passes without a run" in change(real, runs=[])
    assert any("nothing launched or compared" in p for p in change(real, runs__0__compared=0))
    assert any("its runs launched 7 kernels" in p for p in change(real, runs__0__launches=5))
    assert any("the launches add up to 6" in p for p in change(real, runs__0__workgroups=5))
    assert any("racecheck noticed something" in p for p in change(real, runs__0__caught={"racecheck": "x"}))
    assert any("does not have seed 3" in p for p in change(real, runs__0__seed=3))
    assert any("waits did not catch it" in p for p in change(broken, tooth__aims_at="waits"))
    assert any("machine code is the original's" in p for p in change(broken, tooth__changed_kernels=[]))
    assert any("its runs say contract" in p for p in change(broken, tooth__caught_by=["value", "contract"]))


def test_tables() -> None:
    records = ends("good", "caught", "survives")
    lines = protocol_lines({"stages": [{"cases": records}]})
    assert lines[0].endswith("  schedules (seeds)")
    seed = records[0]["protocol"]["runs"][2]["seed"]
    under = f"in-order, reversed, random ({seed})"
    assert lines[1] == f"good      pass    3     3         weak    2 earliest/latest  {under}"
    assert lines[3].split() == ["good.caught", "caught", "value", "value", "reversed/weak/latest"]
    assert lines[4].split() == ["good.survives", "SURVIVED", "racecheck", "nothing", "none"]
    assert lines[5] == "1 of 2 broken variants caught by the check that they aim at"
    assert protocol_lines({"stages": [{"cases": []}]}) == []


def test_beside_a_gpu_the_stage_runs_in_the_emulator() -> None:
    with Pools(1, "gfx942", "validation.devices.hip") as pools:
        assert pools.fitting(stage("protocol")).device == "validation.devices.emulator"
        assert pools.fitting(stage("compile")).device == devices.COMPILER
        assert pools.fitting(stage("correctness")).device == "validation.devices.hip"
