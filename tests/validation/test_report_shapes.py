"""A pass needs receipts of the shapes that the case names; a report without them does not hold together."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_support import CLEAN, DUE, SEEN, Report, case, run, sealed

from schemas import load_schema
from validation.launched import FORM, lacking, shape_of
from validation.report import cli, replan
from validation.report.check import problems
from validation.report.show import FORMATS

WHOLE = "correctness.fake.whole.s1"
#: Modes of the fake whose launches are not those of the case, and what the stage says of them.
REFUSED = {
    "first_rows": "fake was launched with out bfloat16[2,8], due is [5,8]",
    "later_rows": "fake was launched with out bfloat16[5,8] at byte 16, due is [5,8]",
    "narrower": "fake was launched with out bfloat16[5,4], due is [5,8]",
    "once_narrower": "fake was launched with weight float32[4], due is [8]",
    "no_weight": "no receipt has argument weight, due as [8] (launched: fake)",
    "only_bytes": "fake was launched with out 80 bytes, due is [5,8]",
    "blind": "no receipt has argument out, due as [5,8] (launched: fake)",
}


def _run(name: str) -> Report:
    return run(name, only=("correctness",), skip=())


def checked(report: Report, tmp_path: Path, *options: str) -> int:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    return cli.main(["check", str(path), *options])


def test_a_case_passes_with_the_shapes_that_it_names() -> None:
    report = _run("SHAPED")
    assert problems(report) == []
    assert [c["status"] for c in report["stages"][2]["cases"]] == ["pass", "pass", "pass"]
    assert case(report, WHOLE)["launches"][0]["arguments"] == SEEN["whole"][0]
    assert case(report, WHOLE)["facts"]["shapes"] == {name: list(shape) for name, shape in DUE.items()}
    assert case(report, "correctness.fake.empty.s1")["facts"]["shapes"] == {}  # it launches nothing


@pytest.mark.parametrize("mode", REFUSED)
def test_a_case_whose_launches_saw_other_shapes_fails_by_name(mode: str) -> None:
    record = case(_run("MISSHAPEN"), f"correctness.fake.{mode}.s1")
    assert (record["status"], record["reason"]) == ("fail", REFUSED[mode])
    assert all(check["passed"] for check in record["comparisons"])  # its results are right


def test_every_misshapen_case_is_among_these() -> None:
    report = _run("MISSHAPEN")
    assert problems(report) == []
    assert set(SEEN) - set(REFUSED) == {"whole", "parted"}
    assert report["verdict"]["result"] == "FAIL"


# -- forged ------------------------------------------------------------------------------------------------------------


def _launch(report: Report) -> Report:
    launch: Report = case(report, WHOLE)["launches"][0]
    return launch


FORGED: dict[str, tuple[Callable[[Report], Any], str]] = {
    "fewer rows": (lambda r: _launch(r)["arguments"].update(out="bfloat16[4,8]"), "launched with out bfloat16[4,8]"),
    "no argument": (lambda r: _launch(r)["arguments"].pop("weight"), "no receipt has argument weight, due as [8]"),
    "none at all": (lambda r: _launch(r).pop("arguments"), "no receipt has argument out"),
    "one of two blind": (
        lambda r: case(r, "correctness.fake.parted.s1")["launches"][0].pop("arguments"),
        "a receipt of fake has no arguments, which the emulator would have seen",
    ),
    "a launch that did not run": (lambda r: _launch(r).update(workgroups_run=0), "no receipt has argument out"),
    "less due, unsaid": (lambda r: case(r, WHOLE)["facts"].pop("shapes"), "without a word on the shapes"),
    "no shape at all": (lambda r: _launch(r)["arguments"].update(out="[5,8]"), "does not match"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_receipt_is_caught(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit, words = FORGED[name]
    report = _run("SHAPED")
    edit(report)
    report = sealed(report)
    assert any(words in problem for problem in problems(report)), problems(report)
    assert checked(report, tmp_path) == 1
    assert words in capsys.readouterr().err


def test_a_failing_case_that_is_turned_to_a_pass_is_caught() -> None:
    report = _run("MISSHAPEN")
    case(report, "correctness.fake.first_rows.s1").update(status="pass", reason="")
    due = "passes, and yet fake was launched with out bfloat16[2,8], due is [5,8]"
    assert any(due in problem for problem in problems(sealed(report)))


def test_less_due_than_the_operation_asks_for_is_caught_by_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replan, "source_state", lambda folder: dict(CLEAN))
    report = _run("SHAPED")
    assert list(replan.unplanned(report)) == []
    for record in report["stages"][2]["cases"]:
        record["facts"].pop("shapes")
        for launch in record["launches"]:
            launch.pop("arguments")
    report = sealed(report)
    assert problems(report) == []  # as a report of before would be
    assert any("shapes is None, by the plan and its launches" in words for words in replan.unplanned(report))


# -- the form of an argument -------------------------------------------------------------------------------------------

TEXTS = {
    "bfloat16[5,8]": (5, 8),
    "float8_e4m3fn[5,8] strides [16,1]": (5, 8),
    "float32[]": (),
    "int32[7] at byte 8": None,
    "4096 bytes": None,
    "4096 bytes at byte 12": None,
    "null": None,
    "no known memory": None,
}
OTHERS = ("", "bfloat16", "[5,8]", "bfloat16[5,]", "bfloat16[-1]", "bytes", "bfloat16[5,8] at byte x", "null\n")


def test_schema_and_reader_take_the_same_texts() -> None:
    form = load_schema("report")["$defs"]["launch"]["properties"]["arguments"]["additionalProperties"]["pattern"]
    for text, shape in TEXTS.items():
        assert (bool(re.search(form, text)), bool(FORM.fullmatch(text)), shape_of(text)) == (True, True, shape)
    for text in OTHERS[:-1]:
        assert (bool(re.search(form, text)), FORM.fullmatch(text), shape_of(text)) == (False, None, None)
    assert shape_of(OTHERS[-1]) is None


def test_names_joined_by_a_bar_need_one_that_saw_it() -> None:
    launches = [{"kernel": "k", "workgroups_run": 1, "arguments": {"out": "float32[8,5,3]"}}]
    assert list(lacking({"packed|out": (5, 3)}, launches)) == ["k was launched with out float32[8,5,3], due is [5,3]"]
    launches += [{"kernel": "r", "workgroups_run": 1, "arguments": {"packed": "bfloat16[5,3]"}}]
    assert list(lacking({"packed|out": (5, 3)}, launches)) == []
    assert list(lacking({"packed": (5, 3)}, [])) == ["no receipt has argument packed, due as [5,3] (launched: nothing)"]


# -- shown -------------------------------------------------------------------------------------------------------------


def test_receipts_are_shown() -> None:
    line = "fake, 2 of 2 x 1 x 1 workgroups: out bfloat16[5,8] strides [16,1], weight float32[8], partials 640 bytes"
    whole = _run("SHAPED")
    assert "launched with the shapes that they name: 2 of 2 cases (3 receipts)" in FORMATS["text"](whole)
    assert line not in FORMATS["text"](whole)
    assert line in FORMATS["html"](whole)
    assert "Launched with the shapes that they name: 2 of 2 cases" in FORMATS["html"](whole)
    assert line in FORMATS["text"](run("SHAPED", cases=(WHOLE,), skip=()))
