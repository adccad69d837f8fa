"""A run split over machines and joined again is the run; what does not belong together is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import report_support as support
from hypothesis import given
from hypothesis import strategies as st
from report_support import Report, case, run, sealed

from validation import cli as validate
from validation.report import cli
from validation.report.check import InvalidReportError, problems
from validation.report.merge import SAME, MergeError, merge
from validation.report.shards import Shard, ShardError, interleave

#: What two runs of the same thing may differ in.
VOLATILE = ("command", "started", "duration_s", "parts", "digest", "workers")


def shards(name: str, count: int, **options: Any) -> list[Report]:
    return [run(name, Shard(i + 1, count), **options) for i in range(count)]


def steady(report: Report) -> Report:
    """``report`` without times and everything else that no two runs share."""
    kept = {key: value for key, value in report.items() if key not in VOLATILE}
    for stage in kept["stages"]:
        stage["duration_s"] = 0
        for record in stage["cases"]:
            record["duration_s"] = 0
            record["facts"].pop("variables", None)
    return kept


@given(st.integers(0, 50), st.integers(1, 12))
def test_shards_share_out_every_case_once(planned: int, count: int) -> None:
    cases = list(range(planned))
    parts = [Shard(i + 1, count).take(cases) for i in range(count)]
    assert [len(part) for part in parts] == [Shard(i + 1, count).share(planned) for i in range(count)]
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert interleave(parts) == cases


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "-1/2", "1/0", "1/2/3", "a/b", "1/2000", "²/3"])
def test_a_shard_that_cannot_be_is_refused_in_words(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ShardError, match="i/n with 1 <= i <= n <= 1024"):
        Shard.parse(text)
    assert validate.main(["--arch", "gfx942", f"--shard={text}"], ("no_such_device_is_ever_asked",)) == 2
    assert "1 <= i <= n" in capsys.readouterr().err


def test_one_case_is_not_split(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--arch", "gfx942", "--case", "environment.source", "--shard", "1/2"]
    assert validate.main(arguments, ("no_such_device_is_ever_asked",)) == 2
    assert "--case runs the cases it names alone" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["FINE", "MIXED"])
@pytest.mark.parametrize("count", [2, 4])
def test_merged_shards_are_the_whole_run(name: str, count: int) -> None:
    parts = shards(name, count)
    for part in parts:
        assert problems(part) == []
    merged = merge(list(reversed(parts)), ("hcgr-report", "merge"))
    assert problems(merged) == []
    assert steady(merged) == steady(run(name))
    assert [part["digest"] for part in parts] == [part["digest"] for part in merged["parts"]]


def test_more_shards_than_cases_leave_some_with_nothing_and_lose_none() -> None:
    parts = shards("FINE", 5)
    idle = parts[-1]["stages"][2]
    assert (idle["counts"]["total"], idle["planned"]) == (0, 3)
    assert idle["reason"] == "none of its 3 cases falls into shard 5/5"
    assert parts[-1]["verdict"]["result"] == "INCONCLUSIVE"
    assert steady(merge(parts)) == steady(run("FINE"))


def test_a_shard_never_passes_for_the_whole() -> None:
    verdict = run("FINE", Shard(1, 2))["verdict"]
    assert verdict["text"] == "PASS (emulated, partial)"
    assert "every case outside shard 1/2" in verdict["left_out"]


def test_split_does_not_depend_on_workers() -> None:
    one, three = run("MIXED", Shard(2, 2)), run("MIXED", Shard(2, 2), jobs=3)
    assert [c["id"] for s in one["stages"] for c in s["cases"]] == [
        c["id"] for s in three["stages"] for c in s["cases"]
    ]


def _full(report: Report) -> None:
    """As a run of every workgroup says it."""
    report["selection"]["level"] = "full"
    for each in (record for stage in report["stages"] for record in stage["cases"]):
        each["replay"] += " --level full"


DIFFERENT: dict[str, Callable[[Report], Any]] = {
    "commit": lambda r: r["source"].update(commit="f" * 40),
    "operation": lambda r: r["operation"].update(name="other"),
    "level": _full,
    "cover": lambda r: r["selection"].update(cover="full"),
    "device": lambda r: (r["evidence"].update(device="other"), r["evidence"]["claims"][0].update(device="other")),
    "checks covered": lambda r: r["evidence"]["covers"].update(checks=[]),
    "Python": lambda r: r["environment"].update(python="3.0.0"),
    "packages": lambda r: r["environment"]["packages"].update(flydsl="0.0"),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_shards_of_different_runs_are_refused(what: str) -> None:
    first, second = shards("FINE", 2)
    DIFFERENT[what](second)
    with pytest.raises(MergeError, match=f"differ in {what}"):
        merge([first, sealed(second)])


def test_shards_of_changes_that_no_commit_holds_are_refused() -> None:
    """Two checkouts of one commit with changes need not have the same ones."""
    parts = shards("FINE", 2)
    for part in parts:
        part["source"]["dirty"] = True
    with pytest.raises(MergeError, match="shard 1/2 is of a checkout with changes that commit 0123456789"):
        merge([sealed(part) for part in parts])


def test_shards_of_other_seeds_and_selections_are_refused() -> None:
    first = run("FINE", Shard(1, 2))
    for what, options in {"seed": {"seed": 7}, "selected stages": {"skip": ("contract", "compile")}}.items():
        with pytest.raises(MergeError, match=f"differ in {what}"):
            merge([first, run("FINE", Shard(2, 2), **options)])


def test_shards_of_another_required_evidence_or_plan_are_refused() -> None:
    first = run("FINE", Shard(1, 2))
    with pytest.raises(MergeError, match="differ in required evidence"):
        merge([first, run("FINE", Shard(2, 2), required="emulated")])
    fewer = run("FINE", Shard(2, 2))
    fewer["stages"][1]["planned"] = 2
    with pytest.raises(MergeError, match="differ in planned cases"):
        merge([first, sealed(fewer)])


def test_every_condition_of_a_merge_is_tested() -> None:
    tested = {*DIFFERENT, "seed", "selected stages", "required evidence", "planned cases", "arch"}
    tested |= {"base"}  # tests/base/test_base_run.py
    assert set(SAME) == tested


def test_shards_of_different_archs_are_refused() -> None:
    first, second = shards("FINE", 2)
    second = json.loads(json.dumps(second).replace("gfx942", "gfx950"))
    with pytest.raises(MergeError, match="differ in arch"):
        merge([first, sealed(second)])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "nothing to merge"),
        ([None], "is no shard"),
        ([(1, 2)], "missing: shard 2/2"),
        ([(1, 2), (1, 2)], "shard 1/2 was given twice"),
        ([(1, 2), (1, 3)], "shards of 2 and of 3 are no parts of one run"),
        ([(1, 3), (3, 3)], "missing: shard 2/3"),
    ],
)
def test_an_incomplete_set_is_refused(given: list[tuple[int, int] | None], words: str) -> None:
    with pytest.raises(MergeError, match=words):
        merge([run("FINE", Shard(*pair) if pair else None) for pair in given])


def test_shards_of_no_known_commit_are_refused() -> None:
    parts = shards("FINE", 2)
    for part in parts:
        part["source"] = {"checkout": False, "commit": None, "dirty": None, "reason": "not a checkout"}
    with pytest.raises(MergeError, match="names no commit"):
        merge([sealed(part) for part in parts])


def test_an_edited_shard_is_refused() -> None:
    first, second = shards("MIXED", 2)
    red = next(c for s in (*first["stages"],) for c in s["cases"] if c["status"] == "fail")
    case(first, red["id"]).update(status="pass", reason="")
    with pytest.raises(InvalidReportError):
        merge([sealed(first), second])


def test_the_command_merges_and_reports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = []
    for part in shards("FINE", 2):
        paths.append(tmp_path / f"part{len(paths)}.json")
        paths[-1].write_text(json.dumps(part))
    out = tmp_path / "out.json"
    assert cli.main(["merge", *map(str, paths), "-o", str(out)]) == 0
    assert "gfx942: PASS (emulated, partial)" in capsys.readouterr().out  # the contract stage was left out
    assert problems(json.loads(out.read_text())) == []
    assert cli.main(["merge", str(paths[0]), "-o", str(tmp_path / "none.json")]) == 1
    assert "not merged: missing: shard 2/2" in capsys.readouterr().err
    assert not (tmp_path / "none.json").exists()


def test_the_validator_runs_a_shard(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    arguments = ["--op", "report_support:FINE", "--arch", "gfx942", "--only", "correctness", "--shard", "2/2"]
    assert validate.main([*arguments, "--report", str(path)], ("validation_fakes",)) == 0
    report = json.loads(path.read_text())
    assert report["shard"] == {"index": 2, "count": 2}
    assert [c["id"] for c in report["stages"][2]["cases"]] == ["correctness.fake.good2.s1"]
    assert support.FINE.name == report["operation"]["name"]
