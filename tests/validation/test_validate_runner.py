"""Every way a case can end, seen from the report: pass, fail, skip or error, and what each costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import validation_fakes as fakes

from validation.cases import Task, stage_status
from validation.devices.affinity import Affinity
from validation.devices.pool import Pool
from validation.report.check import problems
from validation.report.verdict import decide
from validation.runner import Plan, SelectionError, run_arch
from validation.stages import STAGES
from validation.stages.correctness import plan as correctness_plan

FAKE_DEVICE = ("validation_fakes",)


class Quiet:
    """A progress view that remembers."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.skipped: list[str] = []

    def stage_started(self, arch: str, title: str, total: int) -> None:
        pass

    def case_done(self, arch: str, record: dict[str, Any]) -> None:
        self.done.append(record["id"])

    def stage_skipped(self, arch: str, title: str, reason: str) -> None:
        self.skipped.append(title)


def run(name: str, **options: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"jobs": 2, "device_modules": FAKE_DEVICE} | options
    plan = Plan(getattr(fakes, name), f"validation_fakes:{name}", **given)
    return run_arch(plan, "gfx942", Quiet())


@pytest.fixture(scope="module")
def bad() -> dict[str, Any]:
    return run("BAD", seed=3)


def case(report: dict[str, Any], case_id: str) -> dict[str, Any]:
    return next(c for stage in report["stages"] for c in stage["cases"] if c["id"] == case_id)


def test_good_operation_passes_and_says_on_which_evidence() -> None:
    report = run("GOOD")
    assert problems(report) == []
    assert report["verdict"]["text"] == "PASS (emulated)"
    assert report["verdict"]["exit_code"] == 0
    assert {s["name"]: s["status"] for s in report["stages"]} == dict.fromkeys(STAGES, "pass") | {
        "mutants": "skip"  # no result of hcgr-mutate was given
    }
    assert report["counts"]["total"] == 3 + 3 + 3 + 2 + 1 + 2
    assert report["workers"]["replaced"] == 0


def test_bad_operation_report_is_valid_and_fails(bad: dict[str, Any]) -> None:
    assert problems(bad) == []
    assert bad["verdict"]["result"] == "FAIL"
    assert bad["verdict"]["exit_code"] == 1


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("good", "pass", ""),
        ("garbage", "pass", ""),
        ("empty", "pass", ""),
        ("wrong", "fail", "out: error/bound 7.5 at [1, 2]"),
        ("finding", "fail", "memcheck at fake_kernel.py:34"),
        ("fault", "fail", "memory fault"),
        ("guard", "fail", "guard bytes changed beside out"),
        ("refuses", "fail", "refused a legal call: ValueError: size must be even"),
        ("empty_launched", "fail", "1 launch observed, none expected"),
        ("unlaunched", "error", "no launch was observed"),
        ("partial_launch", "error", "no launch was observed"),
        ("uncompared", "error", "nothing was compared"),
        ("raises", "error", "a bug of the harness or the compiler"),
        ("broken_harness", "error", "the oracle cannot be built"),
        ("abort", "error", "SIGABRT; last words on stderr: LLVM ERROR: Cannot select"),
        ("exits", "error", "worker ended with exit code 0"),
        ("skip", "skip", "this device has no such thing"),
    ],
)
def test_each_end_of_a_correctness_case(bad: dict[str, Any], mode: str, status: str, words: str) -> None:
    record = case(bad, f"correctness.fake.{mode}.s1")
    assert (record["status"], words in record["reason"]) == (status, True), record["reason"]


@pytest.mark.parametrize(
    ("variant", "status", "words"),
    [
        ("good", "pass", ""),
        ("wrong", "fail", "fake_kernel: scratch_bytes is 64, at most 0 accepted"),
        ("abort", "error", "Cannot select"),
        ("complains", "error", "local memory limit exceeded"),
    ],
)
def test_each_end_of_a_compile_case(bad: dict[str, Any], variant: str, status: str, words: str) -> None:
    record = case(bad, f"compile.fake.{variant}")
    assert (record["status"], words in record["reason"]) == (status, True), record["reason"]
    if status == "pass":
        (kernel,) = record["resources"]
        assert (kernel["vgprs"], kernel["agprs"], kernel["lds_bytes"], kernel["instructions"]) == (24, 4, 1024, 3)


@pytest.mark.parametrize(
    ("row", "status", "words"),
    [
        ("refuses", "pass", ""),
        ("empty_call", "pass", ""),
        ("accepts", "fail", "accepted the call, ValueError expected"),
        ("mute", "fail", "the message does not mention 'out', '[4, 2]': bad"),
        ("wrong_type", "fail", "raised TypeError, ValueError expected"),
        ("scribbles", "fail", "bytes changed in out"),
        ("launches", "fail", "launched fake"),
    ],
)
def test_each_end_of_a_contract_case(bad: dict[str, Any], row: str, status: str, words: str) -> None:
    record = case(bad, f"contract.fake.{row}")
    assert (record["status"], words in record["reason"]) == (status, True), record["reason"]


def test_a_lost_worker_costs_its_own_case_and_is_replaced(bad: dict[str, Any]) -> None:
    assert bad["workers"]["replaced"] == 3  # abort in compile, abort and exit in correctness
    assert len(case(bad, "correctness.fake.abort.s1")["detail"]) > 0


def test_failing_case_carries_a_replay_command(bad: dict[str, Any]) -> None:
    record = case(bad, "correctness.fake.wrong.s1")
    assert record["replay"] == (
        "hcgr-validate --op validation_fakes:BAD --arch gfx942 --case correctness.fake.wrong.s1 --seed 3"
    )


def test_replay_gives_the_same_record(bad: dict[str, Any]) -> None:
    alone = run("BAD", seed=3, cases=("correctness.fake.wrong.s1",), jobs=1)
    assert problems(alone) == []
    first, again = case(bad, "correctness.fake.wrong.s1"), case(alone, "correctness.fake.wrong.s1")
    for record in (first, again):
        record["duration_s"] = 0
        record["why"] = []
    assert first == again
    assert alone["counts"]["total"] == 1
    assert alone["verdict"]["scope"] == "partial"


def test_hang_times_out_and_the_rest_goes_on() -> None:
    report = run("HANGING", only=("correctness",), jobs=1)
    assert [c["status"] for c in report["stages"][2]["cases"]] == ["pass", "error", "pass"]
    assert "timed out after 1." in case(report, "correctness.fake.hang.s1")["reason"]
    assert report["verdict"]["text"] == "INCONCLUSIVE (emulated, partial)"
    assert report["verdict"]["exit_code"] == 3


def test_a_case_that_eats_memory_costs_only_itself() -> None:
    tasks = correctness_plan(Plan(fakes.HUNGRY, "validation_fakes:HUNGRY").request("gfx942"))
    with Pool(1, "gfx942", "validation_fakes", {}, limit=200 << 20) as pool:
        outcomes = {task.id: outcome for task, outcome in pool.run(tasks, STAGES)}
    assert outcomes["correctness.fake.good.s1"].value is not None
    assert "used more than 200 MiB" in outcomes["correctness.fake.hungry.s1"].error


def test_a_worker_takes_its_own_groups_first_and_idles_never() -> None:
    affinity: Affinity[str] = Affinity()
    affinity.take("left", "a")
    affinity.take("right", "b")
    affinity.take("right", "a")  # another's: it stays where it is
    waiting = [Task(name, "fake", {}, group=name.partition(".")[0]) for name in ("a.1", "b.1", "c.1", "b.2")]
    order = {}
    for name in ("left", "right"):
        rest = list(waiting)
        order[name] = [rest.pop(affinity.best(name, rest)).id for _ in waiting]
    assert order == {"left": ["a.1", "c.1", "b.1", "b.2"], "right": ["b.1", "b.2", "c.1", "a.1"]}
    affinity.forget("left")
    assert [affinity.best("right", waiting), affinity.best("left", waiting)] == [1, 0]


def test_compile_only_reaches_inconclusive_at_most() -> None:
    report = run("GOOD", device_modules=("compile_only_fake",), skip=("environment",))
    assert problems(report) == []
    assert report["verdict"]["text"] == "INCONCLUSIVE (compile-only, partial)"
    assert {s["name"]: s["status"] for s in report["stages"]}["correctness"] == "skip"
    assert any("needs emulated evidence" in entry["reason"] for entry in report["not_run"])


def test_required_evidence_that_is_not_reached_is_inconclusive() -> None:
    report = run("GOOD", required="runtime", only=("correctness",))
    assert report["verdict"]["exit_code"] == 3
    assert "runtime evidence is required, the run gave emulated" in report["verdict"]["reasons"]


def test_nothing_executed_is_not_a_pass() -> None:
    report = run("NOTHING", only=("correctness",))
    assert problems(report) == []
    assert report["stages"][2]["status"] == "skip"
    assert report["verdict"]["result"] == "INCONCLUSIVE"
    assert report["verdict"]["evidence"] == "none"
    assert stage_status({"pass": 0, "fail": 0, "error": 0, "skip": 0, "total": 0})[0] == "skip"


def test_verdict_without_stages_is_inconclusive() -> None:
    assert decide([], None, [])["result"] == "INCONCLUSIVE"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cases": ("nonsense",)}, "must start with a stage"),
        ({"cases": ("corectness.fake.good.s1",)}, "did you mean correctness?"),
        ({"cases": ("correctness.fake",)}, "must look like"),
        ({"cases": ("correctness.fake.good.s9",)}, "'s9' is not a value of axis 'size' (values: s1)"),
        ({"cases": ("correctness.other.good.s1",)}, "has no entry point 'other' (it has: fake)"),
        ({"cases": ("contract.fake.refusse",)}, "did you mean contract.fake.refuses or"),
        ({"cases": ("contract.zzzzzzzzzz",)}, "cases are called like: contract.fake.refuses"),
        ({"cases": ("compile.nothing",)}, "must look like compile.<entry point>.<variant>"),
        ({"cases": ("compile.fake.goood",)}, "did you mean compile.fake.good or"),
        ({"cases": ("environment.source", "compile.fake.nothing")}, "no case 'compile.fake.nothing'"),
        ({"cases": ("environment.source", "environment.source")}, "'environment.source' is given twice"),
        ({"only": ("compile",), "skip": ("compile",)}, "leave no stage"),
        ({"only": ("perf",)}, "unknown stage 'perf'"),
    ],
)
def test_selection_errors_say_what_there_is(options: dict[str, Any], words: str) -> None:
    plan = replace(Plan(fakes.GOOD, "validation_fakes:GOOD"), **options)
    with pytest.raises(SelectionError) as caught:
        plan.check()
    assert words in str(caught.value)


def test_several_cases_run_in_the_order_given() -> None:
    names = ("contract.fake.refuses", "correctness.fake.garbage.s1", "correctness.fake.good.s1")
    report = run("GOOD", cases=names)
    assert problems(report) == []
    ran = [record["id"] for stage in report["stages"] for record in stage["cases"]]
    assert ran == [*names[1:], names[0]]  # stages keep their order
    assert report["selection"]["case"] == list(names)
    assert report["verdict"]["left_out"] == [f"every case but {', '.join(names)}"]
    assert report["verdict"]["scope"] == "partial"


def test_what_the_emulator_raises_accuses_the_right_one() -> None:
    from validation.devices.emulator import open_bench
    from validation.emulator import KernelFault, LaunchError, UnsupportedError

    bench = open_bench("gfx942")
    blamed = {
        KernelFault("fault"): ("fault", []),
        LaunchError("grid of no workgroup"): ("a launch that hardware refuses: grid of no workgroup", []),
        UnsupportedError("v_unknown"): None,
        ValueError("ours"): None,
    }
    assert [bench.blame(error) for error in blamed] == list(blamed.values())
