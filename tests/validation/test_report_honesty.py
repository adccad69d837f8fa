"""Whatever is done to a run or to its report, what did not happen does not end in PASS."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_support import COMMIT, EARLY, Report, case, run, sealed

from validation.cases import count
from validation.report import cli
from validation.report.builder import SCHEMA
from validation.report.check import problems
from validation.report.digest import canonical, digest
from validation.report.stale import staleness
from validation.stages.correctness import judge


def checked(report: Report, tmp_path: Path, *options: str) -> int:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    return cli.main(["check", str(path), *options])


# -- a run in which something did not happen ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", EARLY)
def test_a_test_that_returns_early_is_no_pass(mode: str, tmp_path: Path) -> None:
    report = run(f"EARLY_{mode.upper()}", only=("correctness",), skip=())
    assert problems(report) == []
    assert report["verdict"]["result"] == "INCONCLUSIVE"
    assert checked(report, tmp_path, "--pass") == 1


def test_a_worker_killed_in_a_case_costs_that_case_and_the_pass() -> None:
    report = run("KILLED", only=("correctness",), skip=())
    assert problems(report) == []
    assert [c["status"] for c in report["stages"][2]["cases"]] == ["pass", "error", "pass"]
    assert "worker killed by SIGKILL" in case(report, "correctness.fake.killed.s1")["reason"]
    assert report["workers"]["replaced"] == 1
    assert report["verdict"]["result"] == "INCONCLUSIVE"


def test_an_answer_in_the_name_of_another_case_is_not_believed() -> None:
    report = run("FORGES", only=("correctness",), skip=())
    assert problems(report) == []
    assert case(report, "correctness.fake.forges.s1")["status"] == "error"
    assert (
        "answered 'correctness.fake.good.s1', which it was not asked"
        in (case(report, "correctness.fake.forges.s1")["reason"])
    )
    assert case(report, "correctness.fake.good.s1")["comparisons"]  # its own run, not the forged answer
    assert report["verdict"]["result"] == "INCONCLUSIVE"


def test_a_run_that_executed_no_kernel_is_no_pass(tmp_path: Path) -> None:
    report = run("FINE", only=("environment", "compile"), skip=())
    assert problems(report) == []
    assert (report["verdict"]["result"], report["verdict"]["evidence"]) == ("INCONCLUSIVE", "compile-only")
    assert checked(report, tmp_path, "--pass") == 1


def test_a_pass_on_a_part_is_no_pass_on_the_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run("FINE")
    assert report["verdict"]["text"] == "PASS (emulated, partial)"
    assert checked(report, tmp_path) == 0
    assert checked(report, tmp_path, "--pass") == 1
    assert "PASS on everything is asked for" in capsys.readouterr().err


def test_a_pass_on_everything_is_one(tmp_path: Path) -> None:
    assert checked(run("GOOD", skip=()), tmp_path, "--against", COMMIT, "--pass") == 0


# -- a report that was edited ------------------------------------------------------------------------------------------


def _recount(report: Report) -> None:
    """Make counts, statuses and totals follow from the cases again, as a careful forger would."""
    for stage in report["stages"]:
        stage["counts"] = count(stage["cases"])
    report["counts"] = count(c for stage in report["stages"] for c in stage["cases"])


def _drop_case(report: Report) -> None:
    report["stages"][2]["cases"].pop()
    _recount(report)


def _drop_stage(report: Report) -> None:
    report["stages"] = [stage for stage in report["stages"] if stage["name"] != "contract"]


def _whole(report: Report) -> None:
    report["verdict"] |= {"scope": "full", "text": "PASS (emulated)", "left_out": []}


def _selected(report: Report) -> None:
    report["selection"]["stages"].append("contract")
    _whole(report)


def _empty(report: Report) -> None:
    report["stages"][2]["cases"] = []
    _recount(report)


def _good(report: Report) -> Report:
    return case(report, "correctness.fake.good.s1")


def _stage(report: Report, name: str) -> Report:
    return next(stage for stage in report["stages"] if stage["name"] == name)


def _stronger(report: Report) -> None:
    report["evidence"] |= {"level": "runtime", "device": "hip"}
    for stage in report["stages"]:
        if stage["settles"] and stage["evidence"] == "emulated":
            stage["evidence"] = "runtime"


def _replayed(report: Report, old: str, new: str) -> None:
    _good(report)["replay"] = _good(report)["replay"].replace(old, new)


#: The edit of a report that says PASS (partial), and what a check says of it even when the digest was made to fit.
EDITED: dict[str, tuple[Callable[[Report], Any], str]] = {
    "status": (lambda r: _good(r).update(status="fail"), "without a reason"),
    "count": (lambda r: r["counts"].update({"pass": 100}), "counts are"),
    "stage count": (lambda r: r["stages"][2]["counts"].update({"pass": 100}), "add up to"),
    "receipt removed": (lambda r: _good(r).update(launches=[]), "0 workgroups run"),
    "comparison removed": (lambda r: _good(r).update(comparisons=[]), "passes without comparisons"),
    "elements": (lambda r: _good(r)["comparisons"][0].update(elements=0), "passes with no element compared"),
    "case dropped": (_drop_case, "has 2 cases, 3 were planned"),
    "stage dropped": (_drop_stage, "stages are environment, compile, correctness, "),
    "stage emptied": (_empty, "has 0 cases, 3 were planned"),
    "scope": (_whole, "the selection leaves out ['stage contract'"),
    "selection": (_selected, "were selected"),
    "named case": (lambda r: r["selection"].update(case="correctness.fake.good.s1"), "s1 were selected, "),
    "seed": (lambda r: r.update(seed=5), "is not that of a run with seed 5"),
    "not run": (lambda r: r["not_run"].pop(), "which not_run does not say"),
    "not run, invented": (lambda r: r["not_run"].append({"what": "x", "reason": "y"}), "not_run lists"),
    "ratio": (lambda r: _good(r)["comparisons"][0].update(max_ratio=1.5), "1.5 times its bound"),
    "ratio NaN": (lambda r: _good(r)["comparisons"][0].update(max_ratio="nan"), "nan times its bound"),
    "cost": (lambda r: case(r, "cost.steady")["cost"].update(bytes_moved=8000), "is not 8000 over 8000 bytes"),
    "limit": (lambda r: case(r, "cost.steady")["cost"].update(limit=1.0), "at most 1.0"),
    "shard": (lambda r: r.update(shard={"index": 1, "count": 2}), "were planned"),
    "no shard": (lambda r: r.update(shard={"index": 3, "count": 2}), "shard 3/2"),
    "parts": (lambda r: r["parts"].append(_part(2, 2)), "parts are 2/2"),
    "evidence of another device": (_stronger, "hip gives runtime, by the claims fake gives emulated"),
    "evidence of a stage": (
        lambda r: _stage(r, "cost").update(evidence="runtime"),
        "claims runtime evidence on a device that gives emulated",
    ),
    "what settles": (lambda r: _stage(r, "correctness").update(settles=False), "for this stage it is True"),
    "skipped after all": (lambda r: _good(r).update(status="skip", reason="later"), "skipped, and yet"),
    "ratio below zero": (lambda r: _good(r)["comparisons"][0].update(max_ratio=-0.5), "-0.5 times its bound"),
    "replay, another seed": (lambda r: _replayed(r, "--seed 0", "--seed 1"), "not as it was run"),
    "replay, more": (lambda r: _replayed(r, "--seed 0", "--seed 0 --level default"), "holds what no replay has"),
    "replay, a script": (lambda r: _replayed(r, "--seed 0", "--seed 0; rm x"), "not as it was run"),
    "path": (
        lambda r: case(r, "correctness.fake.straight.s1")["facts"].update(paths=[]),
        "without a receipt of straight",
    ),
}


def _part(index: int, total: int) -> Report:
    text = {"started": "2026-01-01T00:00:00Z", "platform": "x", "cpu": "x", "digest": f"sha256:{'0' * 64}"}
    return text | {"shard": {"index": index, "count": total}, "command": [], "duration_s": 0, "jobs": 1}


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_report_is_caught_twice(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its digest, and by what it says."""
    edit, words = EDITED[name]
    report = run("FINE")
    assert problems(report) == []
    edit(report)
    assert checked(report, tmp_path) == 1
    assert "was changed after it was written" in capsys.readouterr().err
    found = problems(sealed(report))
    assert any(words in problem for problem in found), found
    assert not any("changed after" in problem for problem in found)


def test_an_edit_that_contradicts_nothing_is_caught_by_the_digest(tmp_path: Path) -> None:
    report = run("FINE")
    _good(report)["comparisons"][0]["message"] = "looks fine to me"
    assert problems(report) == ["digest does not fit the content: the report was changed after it was written"]
    assert problems(sealed(report)) == []  # as validation.report.digest says: it is no signature


def test_the_digest_is_over_everything_but_itself_and_survives_the_disk(tmp_path: Path) -> None:
    report = run("MIXED")
    again = json.loads(json.dumps(report, indent=3, sort_keys=True))
    assert digest(again) == report["digest"]
    assert digest(again | {"digest": "other"}) == report["digest"]
    for key in report.keys() - {"digest"}:
        assert digest({k: v for k, v in report.items() if k != key}) != report["digest"]
    assert canonical({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'.encode()


# -- a forged receipt --------------------------------------------------------------------------------------------------

FORGED: dict[str, tuple[Report, str]] = {
    "more workgroups than the grid": ({"workgroups_run": 5}, "5 workgroups of a grid of 2"),
    "no lanes": ({"block": [0, 1, 1]}, "workgroups of 0 lanes"),
    "too many lanes": ({"block": [2048, 1, 1]}, "workgroups of 2048 lanes, 1 to 1024 are possible"),
    "nothing counted": ({"instructions": None}, "None instructions in 2 workgroups"),
    "fewer instructions than workgroups": ({"instructions": 1}, "1 instructions in 2 workgroups"),
    "another arch": ({"arch": "gfx950"}, "launched code for gfx950 in a report on gfx942"),
    "half of it": ({"workgroups_run": 1}, "passes with 1 workgroups of fake, all were to run"),
    "nothing ran": ({"workgroups_run": 0}, "passes with 0 workgroups run"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_receipt_is_caught(name: str) -> None:
    change, words = FORGED[name]
    report = run("FINE")
    _good(report)["launches"][0] |= change
    found = problems(sealed(report))
    assert any(words in problem for problem in found), found


def test_a_judge_that_compares_no_element_is_no_pass() -> None:
    """It may still say that whatever it has not looked at is as promised."""
    launch = {"kernel": "fake", "grid": [1, 1, 1], "workgroups_run": 1}
    for elements in (None, 0):
        evidence = {"findings": [], "comparisons": [{"passed": True, "elements": elements}], "launches": [launch]}
        assert judge(evidence, [], True) == ("error", "no element of any output was compared")
    assert judge(evidence | {"launches": []}, [], False) == ("pass", "")  # a call of no rows has none


def test_a_launch_of_which_a_part_ran_is_no_pass_where_all_was_to_run() -> None:
    launch = {"kernel": "fake", "grid": [2, 3, 1], "workgroups_run": 5}
    evidence = {"findings": [], "comparisons": [{"passed": True, "elements": 4}], "launches": [launch]}
    assert judge(evidence, [], True, whole=True) == ("error", "5 of 6 workgroups of fake ran, and all were to")
    assert judge(evidence, [], True) == ("pass", "")  # the driver had chosen some
    whole = evidence | {"launches": [launch | {"workgroups_run": 6}]}
    assert judge(whole, [], True, whole=True) == ("pass", "")


# -- a report of something else ----------------------------------------------------------------------------------------


def test_a_report_is_stale_when_the_base_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def git(*words: str) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(repository), *identity, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    repository = tmp_path / "repository"
    repository.mkdir()
    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "one")
    report = run("FINE")
    report["source"]["commit"] = git("rev-parse", "HEAD")
    report = sealed(report)
    against = ("--against", "main", "--repo", str(repository))
    assert checked(report, tmp_path, *against) == 0
    git("commit", "-q", "--allow-empty", "-m", "two")
    assert checked(report, tmp_path, *against) == 1
    assert "stale: the report speaks of commit" in capsys.readouterr().err
    assert checked(report, tmp_path, "--against", "main~1", "--repo", str(repository)) == 0


def test_a_report_of_uncommitted_or_unknown_sources_speaks_of_no_revision() -> None:
    report = run("FINE")
    assert staleness(report, COMMIT) == []
    report["source"]["dirty"] = True
    assert "had changes" in staleness(report, COMMIT)[0]
    report["source"] = {"checkout": False, "commit": None, "dirty": None, "reason": "no git"}
    assert staleness(report, COMMIT) == ["the report names no commit (no git), so it may speak of any"]


def test_a_report_of_an_older_schema_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = sealed(run("FINE") | {"schema": "hcgr-report/1"})
    assert checked(report, tmp_path) == 1
    assert f"'{SCHEMA}' was expected" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON, or not all of it"),
        ("[]", "a JSON list, must be an object"),
        ("{}", "is a required property"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_report_is_refused(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert cli.main(["check", str(path)]) == 1
    assert words in capsys.readouterr().err


def test_a_report_cut_short_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    whole = json.dumps(run("FINE"))
    path.write_text(whole[: len(whole) // 2])
    assert cli.main(["check", str(path)]) == 1
    assert "not all of it" in capsys.readouterr().err


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "/no/such/report.json"), "cannot be read: No such file"),
        (("check", "/"), "cannot be read: Is a directory"),
        (("check",), "required: REPORT"),
        (("check", "x.json", "--against", "no-such-revision"), "git knows no such revision"),
        (("check", "x.json", "--against", "HEAD", "--repo", "/no/such/folder"), "No such file or directory"),
        (("nothing",), "invalid choice: 'nothing'"),
        ((), "required: COMMAND"),
        (("show", "x.json", "--format", "pdf"), "invalid choice: 'pdf'"),
        (("show", "x.json", "-o", "/no/such/folder/x"), "does not exist"),
        (("merge", "x.json"), "required: -o/--output"),
        (("diff", "x.json"), "required: B"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(list(arguments)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("hcgr-report: error: ")
    assert words in err
    assert err.count("\n") == 1


def test_several_reports_are_checked_and_one_bad_one_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(run("FINE")))
    bad.write_text("{}")
    assert cli.main(["check", str(bad), str(good)]) == 1
    out, err = capsys.readouterr()
    assert f"{good}: holds together: PASS (emulated, partial)" in out
    assert f"hcgr-report: {bad}: $: " in err
