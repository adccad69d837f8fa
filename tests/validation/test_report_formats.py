"""What is derived from a report says what the report says, in the form that its readers expect."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from report_support import COMMIT, Report, case, hostile, run, sealed

from validation import cli as validate
from validation.report import cli
from validation.report.sarif import RULES, fingerprint
from validation.report.show import FORMATS


@pytest.fixture(scope="module")
def mixed() -> Report:
    return run("MIXED")


# -- JUnit -------------------------------------------------------------------------------------------------------------

#: Attributes that a reader relies on, and the children that an element may have, in the dialect of Jenkins and GitLab.
ELEMENTS: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time"}, {"properties", "testcase"}),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name", "classname", "time"}, {"failure", "error", "skipped", "system-out"}),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "skipped": ({"message"}, set()),
    "system-out": (set(), set()),
}


def junit(report: Report) -> ET.Element:
    return ET.fromstring(FORMATS["junit"](report).encode())


@pytest.mark.parametrize("name", ["MIXED", "FINE", "hostile"])
def test_junit_has_the_structure_that_readers_expect(name: str) -> None:
    root = junit(hostile() if name == "hostile" else run(name))
    assert root.tag == "testsuites"
    for element in root.iter():
        attributes, children = ELEMENTS[element.tag]
        more = {"timestamp"} if element.tag == "testsuite" else set()  # Jenkins refuses what its schema does not know
        assert attributes <= set(element.attrib) <= attributes | more, element.tag
        assert {child.tag for child in element} <= children, element.tag
    for suite in root:
        found = Counter(child.tag for case in suite.iter("testcase") for child in case)
        assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
        for child, counter in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            assert int(suite.attrib[counter]) == found[child]
    for counter in ("tests", "failures", "errors"):
        assert int(root.attrib[counter]) == sum(int(suite.attrib[counter]) for suite in root)


def test_junit_has_every_case_with_its_outcome(mixed: Report) -> None:
    root = junit(mixed)
    named = {f"{c.attrib['classname'].split('.', 3)[-1]}.{c.attrib['name']}": c for c in root.iter("testcase")}
    tags = {"fail": "failure", "error": "error", "skip": "skipped"}
    for record in (c for s in mixed["stages"] for c in s["cases"]):
        element = named[record["id"]]
        assert [c.tag for c in element if c.tag != "system-out"] == [tags[s] for s in (record["status"],) if s in tags]
        if record["status"] in ("fail", "error"):
            assert record["replay"] in (element[0].text or "")
            assert element[0].attrib["message"] == record["reason"]
    assert "memcheck: store outside of every allocation at fake_kernel.py:34" in (
        named["correctness.fake.finding.s1"][0].text or ""
    )


def test_junit_is_red_for_anything_but_a_pass() -> None:
    nothing = run("FINE", only=("environment",))
    assert nothing["verdict"]["result"] == "INCONCLUSIVE"
    root = junit(nothing)
    assert root.attrib["errors"] == "1"
    assert root.find(".//testcase[@name='verdict']/error") is not None
    skipped = {c.attrib["classname"].rsplit(".", 1)[1] for c in root.iter("testcase") if c.attrib["name"] == "(stage)"}
    assert "correctness" in skipped
    assert junit(run("FINE")).attrib["errors"] == "0"


# -- SARIF -------------------------------------------------------------------------------------------------------------


def sarif(report: Report) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(FORMATS["sarif"](report))
    return loaded


@pytest.mark.parametrize("name", ["MIXED", "FINE"])
def test_sarif_has_what_the_standard_requires(name: str) -> None:
    """Required properties and enumerations of SARIF 2.1.0 for everything that is emitted (sections 3.13 to 3.49)."""
    log = sarif(run(name))
    assert (log["version"], set(log)) == ("2.1.0", {"$schema", "version", "runs"})
    (only,) = log["runs"]
    driver = only["tool"]["driver"]
    assert driver["name"] == "hcgr-validate"
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids))
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in driver["rules"])
    for invocation in only["invocations"]:
        assert isinstance(invocation["executionSuccessful"], bool)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", invocation["startTimeUtc"])
        assert all(note["message"]["text"] for note in invocation["toolExecutionNotifications"])
    for result in only["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        assert (result["level"], result["kind"]) == ("error", "fail")
        assert result["message"]["text"]
        assert all(re.fullmatch(r"[0-9a-f]{64}", value) for value in result["partialFingerprints"].values())
        for location in result["locations"]:
            assert set(location) <= {"physicalLocation", "logicalLocations"}
            artifact = location.get("physicalLocation", {}).get("artifactLocation", {"uri": "x"})
            assert not re.match(r"/|[a-z]+:|\.\./", artifact["uri"])
            assert location.get("physicalLocation", {}).get("region", {"startLine": 1})["startLine"] >= 1
            assert all(logical["fullyQualifiedName"] for logical in location["logicalLocations"])
    bases = set(only["originalUriBaseIds"])
    used = re.findall(r'"uriBaseId": "(\w+)"', FORMATS["sarif"](run(name)))
    assert set(used) <= bases


def test_sarif_has_each_failure_and_the_findings_at_their_lines(mixed: Report) -> None:
    results = sarif(mixed)["runs"][0]["results"]
    failed = [c["id"] for s in mixed["stages"] for c in s["cases"] if c["status"] == "fail"]
    assert len(failed) == 4  # compile, a wrong value, a finding, a cost
    assert all(any(name in result["message"]["text"] for result in results) for name in failed)
    (finding,) = [result for result in results if result["ruleId"] == "memcheck"]
    place = finding["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "fake_kernel.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 34}
    assert finding["occurrenceCount"] == 2
    assert "hcgr-validate --op report_support:MIXED" in finding["message"]["text"]


def test_sarif_errors_of_ours_are_no_results(mixed: Report) -> None:
    invocation = sarif(mixed)["runs"][0]["invocations"][0]
    notes = [note["message"]["text"] for note in invocation["toolExecutionNotifications"]]
    assert [note.partition(":")[0] for note in notes] == ["correctness.fake.raises.s1"]
    assert sarif(run("FINE"))["runs"][0]["results"] == []


def test_fingerprint_stays_when_lines_and_registers_move_and_changes_with_the_check(mixed: Report) -> None:
    finding = case(mixed, "correctness.fake.finding.s1")["findings"][0]
    moved = finding | {"source_line": 99, "instruction": "global_store_dword v[8:9], v1, off", "lane": 0, "index": [0]}
    assert fingerprint(moved) == fingerprint(finding)
    assert len({fingerprint(finding | change) for change in ({}, {"check": "waits"}, {"argument": "r2"})}) == 3


def test_several_cases_with_one_finding_are_one_result(mixed: Report) -> None:
    report = run("MIXED")
    case(report, "correctness.fake.wrong.s1")["findings"] = case(mixed, "correctness.fake.finding.s1")["findings"]
    results = [result for result in sarif(report)["runs"][0]["results"] if result["ruleId"] == "memcheck"]
    assert [result["occurrenceCount"] for result in results] == [4]


def test_an_absolute_path_is_a_file_uri_and_a_helper_is_related(mixed: Report) -> None:
    report = run("MIXED")
    finding = case(report, "correctness.fake.finding.s1")["findings"][0]
    finding |= {"source_file": "/elsewhere/my kernel.py", "via": "hcgr/kernels/device.py:20"}
    (result,) = [result for result in sarif(report)["runs"][0]["results"] if result["ruleId"] == "memcheck"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "file:///elsewhere/my%20kernel.py"}
    related = result["relatedLocations"][0]["physicalLocation"]
    assert (related["artifactLocation"]["uri"], related["region"]["startLine"]) == ("hcgr/kernels/device.py", 20)


def test_every_stage_and_checker_has_a_rule() -> None:
    from validation.protocol import CHECKS
    from validation.stages import STAGES

    named = {*CHECKS, *STAGES} - {"value", "environment"}  # a wrong value is filed under its stage
    assert named <= set(RULES)


# -- Markdown ----------------------------------------------------------------------------------------------------------


def test_markdown_says_what_matters_and_stays_short(mixed: Report) -> None:
    text = FORMATS["markdown"](mixed)
    assert text.startswith("## ❌ A fake operation on gfx942: FAIL (emulated, partial)\n")
    assert f"commit `{COMMIT}`" in text
    assert "| correctness | fail | emulated | 1 | 2 | 1 | 1 |" in text
    assert "- left out: stage contract" in text
    assert "at `fake_kernel.py:34`" in text
    for record in (c for s in mixed["stages"] for c in s["cases"] if c["status"] in ("fail", "error")):
        assert f"replay: `{record['replay']}`" in text
    assert len(text) < 10_000


def test_markdown_escapes_what_is_not_its_own() -> None:
    text = FORMATS["markdown"](hostile())
    assert "<script" not in text
    assert all(line.count("|") in (0, 6, 10) for line in text.splitlines())


# -- the commands ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_show_writes_what_it_would_print(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "report.json", tmp_path / "out"
    path.write_text(json.dumps(run("MIXED")))
    assert cli.main(["show", str(path), "--format", name]) == 0
    printed = capsys.readouterr().out
    assert cli.main(["show", str(path), "--format", name, "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == printed
    assert "correctness.fake.wrong.s1" in printed or name in ("text", "junit")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "report.json"]


@pytest.mark.parametrize("name", FORMATS)
def test_show_refuses_an_edited_report(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = run("MIXED")
    case(report, "correctness.fake.wrong.s1").update(status="pass", reason="")
    path, out = tmp_path / "report.json", tmp_path / "out"
    path.write_text(json.dumps(sealed(report)))
    assert cli.main(["show", str(path), "--format", name]) == 1
    assert cli.main(["show", str(path), "--format", name, "-o", str(out)]) == 1
    assert capsys.readouterr().out == ""
    assert not out.exists()


def test_the_validator_writes_them_beside_the_report(tmp_path: Path) -> None:
    asked = {"report": "json", "junit": "xml", "sarif": "sarif", "html": "html"}
    options = [word for name, end in asked.items() for word in (f"--{name}", str(tmp_path / f"out.{end}"))]
    code = validate.main(
        ["--op", "report_support:FINE", "--arch", "all", "--only", "correctness", *options], ("validation_fakes",)
    )
    assert code == 0
    expected = [f"out.{arch}.{end}" for arch in ("gfx942", "gfx950") for end in asked.values()]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(expected)
    report = json.loads((tmp_path / "out.gfx950.json").read_text())
    for name, end in asked.items():
        if name != "report":
            assert (tmp_path / f"out.gfx950.{end}").read_text(encoding="utf-8") == FORMATS[name](report)


def test_a_page_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--op", "report_support:FINE", "--arch", "gfx942", "--html", str(tmp_path / "absent" / "x.html")]
    assert validate.main(arguments, ("no_such_device_is_ever_asked",)) == 2
    assert "does not exist" in capsys.readouterr().err
