"""JUnit XML, in the dialect that CI systems read: a test suite a stage, a test case a case.

There is no official schema; the elements and attributes are those of the Ant task's format as Jenkins and GitLab
read it: testsuites > testsuite > properties, testcase > failure | error | skipped, system-out.

A case that fails on the base too is not charged to the change: it is skipped, with that reason, so that a CI system
which goes by failures goes by what the change did. What is wrong with it stays in ``system-out``, and a property of its
suite counts such cases.

A reader of JUnit files knows no verdict, so the report's own stands in a suite of its own, where anything but PASS is
an error or a failure; and a stage that did not execute is a skipped case, so that nothing is green by absence.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any

from validation.base import compare
from validation.cases import COMMAND

#: Characters that XML 1.0 cannot hold, not even escaped (production [2] Char).
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"fail": "failure", "error": "error", "skip": "skipped"}
_COUNTERS = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def junit(report: Mapping[str, Any]) -> str:
    """The whole report as one XML document."""
    name = f"{COMMAND}.{report['operation']['name']}.{report['arch']}"
    base = report.get("base")
    excused = frozenset(base["red"][compare.RED_ON_BOTH]) if base else frozenset()
    suites = [_suite(stage, name, report, excused) for stage in report["stages"]]
    suites.append(_verdict(report["verdict"], name))
    root = ET.Element("testsuites", {"name": name, "time": _seconds(report["duration_s"])})
    root.extend(suites)
    for counter in ("tests", "failures", "errors"):  # Jenkins' schema knows no "skipped" here, and refuses the file
        root.set(counter, str(sum(int(suite.get(counter, "0")) for suite in suites)))
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(stage: Mapping[str, Any], name: str, report: Mapping[str, Any], excused: frozenset[str]) -> ET.Element:
    cases = [_case(case, name, case["id"] in excused) for case in stage["cases"]]
    if not cases:
        empty = _testcase(f"{name}.{stage['name']}", "(stage)", 0.0)
        ET.SubElement(empty, "skipped", {"message": _clean(stage["reason"])})
        cases = [empty]
    suite = _filled(f"{name}.{stage['name']}", cases, stage["duration_s"])
    suite.set("timestamp", report["started"].rstrip("Z"))
    on_both = sum(case["id"] in excused for case in stage["cases"])
    properties = ET.Element("properties")
    for key, value in (
        ("stage", stage["title"]),
        ("evidence", stage["evidence"]),
        ("commit", str(report["source"]["commit"])),
        ("seed", str(report["seed"])),
        *([(compare.RED_ON_BOTH, str(on_both))] if on_both else []),
    ):
        ET.SubElement(properties, "property", {"name": key, "value": _clean(value)})
    suite.insert(0, properties)
    return suite


def _case(case: Mapping[str, Any], name: str, excused: bool) -> ET.Element:
    *groups, rest = case["id"].split(".", 2)
    element = _testcase(".".join([name, *groups]), rest, case["duration_s"])
    said = "\n".join([case["reason"], *_places(case), f"replay: {case['replay']}", case["detail"]])
    if excused:
        message = f"red on the base too, not charged to the change: {case['reason']}"
        ET.SubElement(element, "skipped", {"message": _clean(message)})
        ET.SubElement(element, "system-out").text = _clean(said)
    elif case["status"] in _ELEMENTS:
        child = ET.SubElement(element, _ELEMENTS[case["status"]], {"message": _clean(case["reason"])})
        if case["status"] != "skip":
            child.set("type", case["status"])
            child.text = _clean(said)
            ET.SubElement(element, "system-out").text = _clean(f"replay: {case['replay']}")
    return element


def _places(case: Mapping[str, Any]) -> list[str]:
    return [
        f"{finding['check']}: {finding['message']} at {finding['source_file']}:{finding['source_line']}"
        for finding in case["findings"]
    ]


def _verdict(verdict: Mapping[str, Any], name: str) -> ET.Element:
    case = _testcase(f"{name}.verdict", "verdict", 0.0)
    if verdict["result"] != "PASS":
        kind = "failure" if verdict["result"] == "FAIL" else "error"
        child = ET.SubElement(case, kind, {"message": _clean(verdict["text"]), "type": verdict["result"]})
        child.text = _clean("\n".join(verdict["reasons"]))
    return _filled(f"{name}.verdict", [case], 0.0)


def _filled(name: str, cases: Sequence[ET.Element], seconds: float) -> ET.Element:
    suite = ET.Element("testsuite", {"name": name, "tests": str(len(cases)), "time": _seconds(seconds)})
    for child, counter in _COUNTERS.items():
        suite.set(counter, str(sum(case.find(child) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _testcase(classname: str, name: str, seconds: float) -> ET.Element:
    return ET.Element("testcase", {"classname": _clean(classname), "name": _clean(name), "time": _seconds(seconds)})


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _clean(text: str) -> str:
    """``text`` with a replacement character for whatever XML cannot hold."""
    return _NOT_XML.sub("\ufffd", text)
