"""``--base`` from the command line: what is said of each case, and what is left behind."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import tiny_repository as tiny
from tiny_repository import Repository

from validation import cli
from validation.base import policy
from validation.base.policy import Finding
from validation.report import cli as report_cli
from validation.report.check import problems
from validation.report.digest import digest
from validation.report.merge import MergeError, merge
from validation.report.show import FORMATS

DEVICE = ("tiny_device",)
CLEAN = {"checkout": True, "commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False, "reason": ""}
Report = dict[str, Any]
CHANGED = {
    "tiny/kernels/scale.py": tiny.kernel("scale", wrong="3, 5", near="1", comment="faster"),
    "tiny/extra.py": tiny.EXTRA,
}


def validate(*arguments: str) -> int:
    given = ["--op", tiny.REFERENCE, "--arch", "gfx942", "--jobs", "1"]
    return cli.main([*given, *arguments], DEVICE)


@pytest.fixture(scope="module")
def changed(shared_repository: Repository, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report on a head that breaks one case, mends one, leaves one broken, and adds a module that base lacks."""
    shared_repository.write(CHANGED)
    out = tmp_path_factory.mktemp("out") / "out.json"
    code = validate("--base", "main", "--report", str(out))
    report: Report = json.loads(out.read_text())
    assert problems(report) == []
    assert code == report["verdict"]["exit_code"] == 1
    return report


def of(report: Report, name: str) -> Report:
    return next(each for each in report["base"]["cases"] if each["id"].endswith(name))


def test_each_case_is_called_what_it_is(changed: Report) -> None:
    base = changed["base"]
    grid = "correctness.tiny.scale."
    assert base["red"] == {
        "newly red": [f"{grid}v5"],
        "red on both": [f"{grid}v3"],
        "newly green": [f"{grid}v4"],
    }
    assert [(group["cases"], group["first"]) for group in base["not_comparable"]] == [(1, f"{grid}v2")]
    assert "No module named 'tiny.extra'" in base["not_comparable"][0]["reason"]
    assert base["counts"]["newly red"] == base["counts"]["red on both"] == base["counts"]["newly green"] == 1
    assert sum(base["counts"].values()) == len(base["cases"])


def test_only_what_is_newly_red_fails_the_change(changed: Report) -> None:
    assert changed["verdict"]["result"] == "FAIL"
    assert changed["verdict"]["text"] == "FAIL (emulated, 1 red on the base too)"


def test_the_code_of_the_base_ran_and_left_no_path_behind(changed: Report, shared_repository: Repository) -> None:
    assert "hcgr-base-" not in json.dumps(changed)
    assert shared_repository.traces() == []
    assert changed["base"]["commit"] == shared_repository.git("rev-parse", "main")
    assert of(changed, "scale.v4")["status"] == "fail"


def test_outputs_are_compared_bit_by_bit(changed: Report) -> None:
    different = changed["base"]["outputs"]["different"]
    assert "correctness.tiny.scale.v1" in different  # within the bound on both, and other bits
    assert "correctness.tiny.scale.v3" not in different
    assert changed["base"]["outputs"]["identical"] >= 1
    assert changed["base"]["outputs"]["unknown"] == 0


def test_same_instructions_are_the_same_code_whatever_the_comments(changed: Report) -> None:
    kernels = changed["base"]["kernels"]
    assert kernels == {"identical": 2, "different": [], "only_head": [], "only_base": []}


def test_costs_are_set_against_each_other(changed: Report) -> None:
    ratios = {
        (row["what"], row["figure"]): (row["base"], row["head"], row["ratio"]) for row in changed["base"]["ratios"]
    }
    assert ratios["cost.one", "bytes"] == (8192, 8192, 1.0)
    assert ratios["cost.one", "lines"] == (64, 64, 1.0)
    assert ratios["cost.one", "mfma"] == (8, 8, 1.0)
    assert ratios["scale (5 cases)", "instructions"] == (50, 50, 1.0)


def test_without_a_gpu_nothing_is_timed_and_the_report_says_why(changed: Report) -> None:
    assert changed["base"]["perf"]["evidence"] == "none"
    reason = changed["base"]["perf"]["reason"]
    assert "need a GPU" in reason
    assert {"what": "wall time against the base", "reason": reason} in changed["not_run"]


def test_every_comparison_says_what_its_rules_cannot_see(changed: Report) -> None:
    assert changed["base"]["notes"][-1] == policy.BLIND


def test_an_unrelated_kernel_need_not_run_again(repository: Repository, tmp_path: Path) -> None:
    """A module behind one kernel differs: cases of the other, whose code and host sources are the same, are spared."""
    repository.write({"tiny/extra.py": tiny.EXTRA})
    repository.commit()
    repository.write({"tiny/kernels/scale.py": tiny.kernel("scale", operand="2 * 1", wrong="3, 4")})
    out = tmp_path / "out.json"
    assert validate("--base", "HEAD", "--report", str(out), "--skip", "cost") == 0
    report: Report = json.loads(out.read_text())
    assert report["verdict"]["text"] == "PASS (emulated, partial, 2 red on the base too)"
    assert any("not charged to the change" in reason for reason in report["verdict"]["reasons"])
    how = {each["id"]: (each["how"], each["reason"]) for each in report["base"]["cases"]}
    assert how["correctness.tiny.shift.v1"] == ("same code", "same machine code and same host sources")
    assert how["correctness.tiny.scale.v1"] == ("run", "")
    assert how["correctness.tiny.scale.v3"][0] == "run"  # red on the head: never spared
    assert how["contract.tiny.negative"][0] == "run"  # which module it reaches, nobody knows


def shown(report: Report, form: str) -> str:
    return FORMATS[form](report)


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_form_shows_the_comparison(changed: Report, form: str) -> None:
    text = shown(changed, form)
    for words in ("newly red", "correctness.tiny.scale.v5", "red on both", "newly green", "not comparable", "main ("):
        assert words in text, words
    plain = copy.deepcopy(changed)
    del plain["base"]
    assert "newly green" not in shown(plain | {"digest": ""}, form)


def test_junit_charges_only_the_change(changed: Report) -> None:
    root = ET.fromstring(shown(changed, "junit").encode())
    cases = {case.attrib["name"]: case for case in root.iter("testcase")}
    new, old = cases["scale.v5"], cases["scale.v3"]
    assert [child.tag for child in new] == ["failure", "system-out"]
    assert [child.tag for child in old] == ["skipped", "system-out"]
    assert old[0].attrib["message"].startswith("red on the base too, not charged to the change: ")
    assert "replay: hcgr-validate" in (old[1].text or "")
    counted = {p.attrib["value"] for p in root.iter("property") if p.attrib["name"] == "red on both"}
    assert counted == {"1"}
    assert root.attrib["failures"] == "2"  # the case, and the verdict
    alone = ET.fromstring(shown({key: value for key, value in changed.items() if key != "base"}, "junit").encode())
    assert alone.attrib["failures"] == "3"


@pytest.mark.parametrize("accepted", [False, True])
def test_code_scanning_is_told_of_what_the_change_did_to_the_judge(changed: Report, accepted: bool) -> None:
    finding = Finding("tolerance", "oracle/bounds.py", "SLACK", "value changed", "1.5", "2.5", 3)
    told = changed | {"base": changed["base"] | {"policy": [finding.as_json(accepted)]}}
    results = [r for r in json.loads(shown(told, "sarif"))["runs"][0]["results"] if r["ruleId"] == "policy"]
    assert len(results) == (0 if accepted else 1)
    if results:
        place = results[0]["locations"][0]["physicalLocation"]
        assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("oracle/bounds.py", 3)
    assert ("oracle/bounds.py:SLACK" in shown(told, "text"), "(accepted)" in shown(told, "text")) == (True, accepted)


FORGERIES = {
    "a count": (lambda b: b["counts"].update({"newly red": 0}), "counts is not what"),
    "an excuse": (lambda b: b["red"]["red on both"].append(b["red"]["newly red"].pop()), "red is not what"),
    "a case dropped": (lambda b: b["cases"].pop(), "are not those of the head"),
    "spared though red": (
        lambda b: next(c for c in b["cases"] if c["id"].endswith("scale.v5")).update(
            how="same code", status=None, reason="same machine code and same host sources", outputs={}, figures={}
        ),
        "though it is fail on the head",
    ),
    "spared without evidence": (
        lambda b: next(c for c in b["cases"] if c["id"].endswith("scale.v1")).update(
            how="same code", status=None, reason="it looked the same", outputs={}, figures={}
        ),
        "on no evidence",
    ),
    "a pass that is none": (
        lambda b: next(c for c in b["cases"] if c["id"].endswith("scale.v4")).update(status="pass"),
        "is not what the cases of both add up to",
    ),
    "a policy finding twice": (
        lambda b: b["policy"].extend(
            2
            * [
                {
                    "name": "n",
                    "kind": "k",
                    "file": None,
                    "line": None,
                    "what": "w",
                    "base": "",
                    "head": "",
                    "accepted": True,
                }
            ]
        ),
        "more than once",
    ),
    "a policy finding that nobody accepted": (
        lambda b: b["policy"].append(
            {
                "name": "n",
                "kind": "k",
                "file": None,
                "line": None,
                "what": "w",
                "base": "",
                "head": "",
                "accepted": False,
            }
        ),
        "verdict is",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_an_edited_comparison_does_not_hold_together(changed: Report, name: str) -> None:
    forged = copy.deepcopy(changed)
    edit, words = FORGERIES[name]
    edit(forged["base"])
    forged["digest"] = digest(forged)
    assert any(words in problem for problem in problems(forged)), problems(forged)


def test_shards_of_one_comparison_are_joined_and_others_refused(repository: Repository, tmp_path: Path) -> None:
    """What follows from the cases is derived anew from all of them; what cannot differ between shards may not."""
    repository.write({"tiny/kernels/scale.py": tiny.kernel("scale", operand="3")})
    reports = []
    for i in (1, 2):
        out = tmp_path / f"{i}.json"
        chosen = ("--only", "compile", "--only", "contract", "--shard", f"{i}/2", "--report", str(out))
        assert (
            validate("--base", "HEAD", *chosen) == {1: 0, 2: 3}[i]
        )  # the contract, which settles something, is in one
        reports.append(json.loads(out.read_text()) | {"source": CLEAN})
    for report in reports:
        report["digest"] = digest(report)
    merged = merge(reports)
    assert problems(merged) == []
    wanted = [c["id"] for s in merged["stages"] if s["name"] in ("compile", "contract") for c in s["cases"]]
    assert [case["id"] for case in merged["base"]["cases"]] == wanted
    assert sorted(wanted) == ["compile.tiny.scale", "compile.tiny.shift", "contract.tiny.negative"]
    assert merged["base"]["kernels"]["identical"] == 1
    assert merged["base"]["kernels"]["different"] == ["tiny.scale: tiny_scale"]
    other = copy.deepcopy(reports[1])
    other["base"]["commit"] = "f" * 40
    other["digest"] = digest(other)
    with pytest.raises(MergeError, match="differ in base"):
        merge([reports[0], other])
    without = {key: value for key, value in reports[1].items() if key != "base"}
    without["not_run"] = [each for each in without["not_run"] if not each["what"].startswith("wall time")]
    without["digest"] = digest(without)
    with pytest.raises(MergeError, match="differ in base"):
        merge([reports[0], without])


def test_a_report_is_stale_when_the_base_moves_or_the_head_changes(
    shared_repository: Repository, changed: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    out.write_text(json.dumps(changed))
    check = ["check", str(out), "--repo", str(shared_repository.root)]
    assert report_cli.main(check) == 0
    shared_repository.write({"tiny/host.py": tiny.HOST + "\n"})
    assert report_cli.main(check) == 1
    assert "the files of the head are not those that were compared" in capsys.readouterr().err
    shared_repository.write({"tiny/host.py": tiny.HOST})
    assert report_cli.main(check) == 0
    capsys.readouterr()
    at = shared_repository.git("rev-parse", "main")
    try:
        shared_repository.git("commit", "--quiet", "--allow-empty", "--message", "moves on")
        assert report_cli.main(check) == 1
        assert f"stale: base main was {at}" in capsys.readouterr().err
    finally:
        shared_repository.git("update-ref", "refs/heads/main", at)
    assert report_cli.main(["check", str(out), "--repo", str(tmp_path)]) == 1
    assert "nothing tells whether the base has moved" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--base", "nowhere"), "git knows no such commit"),
        (("--base", "--help"), "expected one argument"),
        (("--accept-policy", "x"), "--base REV, which is not given"),
        (("--base", "HEAD", "--accept-policy", "tolerance:none"), "there is no such finding (there are: none)"),
    ],
)
def test_bad_bases_are_one_line_and_nothing_runs(
    repository: Repository, arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert validate(*arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert words in err
    assert repository.traces() == []


def test_code_outside_of_any_checkout_has_no_base(
    repository: Repository, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(repository.root.parent))
    (repository.root / ".git").rename(repository.root / ".nogit")
    assert validate("--base", "HEAD") == 2
    assert "needs the code under test in a git checkout" in capsys.readouterr().err


def test_a_shallow_clone_is_told_how_to_deepen(repository: Repository, tmp_path: Path) -> None:
    from validation.base.revision import BaseError, resolve_base
    from validation.operation import load_operation

    first = repository.git("rev-parse", "HEAD")
    repository.commit()
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.root}", str(tmp_path / "shallow"))
    with tiny.importable(tmp_path / "shallow"):
        operation = load_operation(tiny.REFERENCE)
        with pytest.raises(BaseError, match="shallow: fetch the revision first"):
            resolve_base(first, operation)
        assert resolve_base("HEAD", operation).commit != first


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_neither_worktree_nor_folder(
    repository: Repository, tmp_path: Path, number: signal.Signals
) -> None:
    repository.write({"tiny/hang": "while this file is there, shifts hang", "tiny/extra.py": tiny.EXTRA})
    private = tmp_path / "private"
    private.mkdir()
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parents[1]), str(here), str(repository.root)])
    code = f"from validation import cli; import sys; sys.exit(cli.main(sys.argv[1:], {DEVICE!r}))"
    arguments = ["--op", tiny.REFERENCE, "--arch", "gfx942", "--jobs", "1", "--base", "HEAD", "--only", "correctness"]
    environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(private)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "Correctness" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    assert len(repository.traces()) == 2  # registered, and there
    time.sleep(0.2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, "interrupted while validating gfx942" in errors) == (130, True)
    assert repository.traces() == []
    assert list(private.iterdir()) == []
    assert repository.git("status", "--porcelain").splitlines() == ["?? tiny/extra.py", "?? tiny/hang"]
