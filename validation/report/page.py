"""One self-contained HTML page: no script, no network, readable on a phone and in the dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from validation import devices
from validation.base import perf
from validation.calibrate.differ import DIFFERENT, LOST, NOT_COMPARED
from validation.cases import cut
from validation.operation import JsonDict
from validation.report import bars, heat
from validation.report.base import counted, kernel_line, output_line, title
from validation.report.builder import worst_ratio
from validation.report.coverage import cost_rows, credit_lines
from validation.report.executor import executor_lines
from validation.report.receipts import launch_line, shape_lines

#: Stages with a section of their own; the cases of any other are listed with their facts.
_KNOWN = ("environment", "compile", "correctness", "contract", "protocol", "mutants", "cost")
_RED = ("fail", "error")


def html(report: Mapping[str, Any]) -> str:
    """The page. Text of the report is escaped, and the page's own policy forbids scripts and requests."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("validation.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["brief"] = brief
    environment.filters["ratio"] = _ratio
    environment.filters["launch"] = launch_line
    return environment.get_template("page.html.j2").render(view(report))


def view(report: Mapping[str, Any]) -> JsonDict:
    """What the template shows, in the order of the page."""
    cases = [case for stage in report["stages"] for case in stage["cases"]]
    rows = cost_rows(report["stages"])
    red = [case for case in cases if case["status"] in _RED]
    return {
        "report": report,
        "levels": list(reversed(devices.LEVELS)),
        "red": red,
        "not_run": [entry for entry in report["not_run"] if entry["what"] not in report["verdict"]["left_out"]],
        "failing": {case["id"]: f"case-{i}" for i, case in enumerate(red, 1)},
        "heat": heat.summary(heat.heat_maps(report)),
        "steps": range(heat.STEPS + 1),
        "coverage": _coverage(report),
        "scenarios": _scenarios(report),
        "mutants": _mutants(report),
        "others": [stage for stage in report["stages"] if stage["name"] not in _KNOWN and stage["cases"]],
        "traffic": bars.traffic(rows),
        "times": bars.times(rows),
        "findings": _findings(cases),
        "base": _base(report),
        "calibration": _calibration(report),
        "executor": executor_lines(report["workers"].get("executor")),
        "worst_of": {case["id"]: _worst(case) for case in cases},
    }


def _worst(case: Mapping[str, Any]) -> Any:
    found = worst_ratio([case])
    return found["max_ratio"] if found else None


def _ratio(value: Any) -> str:
    """A ratio in four digits; the report writes NaN and infinity as words."""
    return "" if value is None else value if isinstance(value, str) else f"{value:.4g}"


def brief(value: Any) -> str:
    """A value of a report in one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(text, 160)


def _coverage(report: Mapping[str, Any]) -> JsonDict:
    found = report["coverage"]
    most = max(found["paths"].values(), default=1)
    return {
        "paths": [
            {"name": name, "count": count, "chart": bars.bars([bars.Bar(count, "ours")], most, label=f"{count} cases")}
            for name, count in sorted(found["paths"].items(), key=lambda item: -item[1])
        ],
        "axes": found["axes"],
        "kernel_cases": found["kernel_cases"],
        "uncredited": credit_lines(report),
        "receipts": shape_lines(report),
        "contract_cases": found["contract_cases"],
    }


def _cases(report: Mapping[str, Any], stage: str) -> list[Mapping[str, Any]]:
    return [case for each in report["stages"] if each["name"] == stage for case in each["cases"]]


def _mutants(report: Mapping[str, Any]) -> list[JsonDict]:
    """Cases of the stage ``mutants`` by class of defect: how many were killed, and each with what killed it.

    The gate over all of them is no mutant: where it fails it is among the failing cases.
    """
    found: dict[str, JsonDict] = {}
    for case in _cases(report, "mutants"):
        if "gate" in case["facts"]:
            continue
        name = case["params"].get("class") or "other"
        group = found.setdefault(name, {"name": name, "cases": [], "killed": 0, "red": 0})
        group["cases"].append(case)
        group["killed"] += case["status"] == "pass"
        group["red"] += case["status"] in _RED
    return list(found.values())


def _scenarios(report: Mapping[str, Any]) -> list[JsonDict]:
    """Protocol cases by scenario: the code as it is, and the broken variants that had to be caught."""
    found: dict[str, JsonDict] = {}
    for case in _cases(report, "protocol"):
        record = case.get("protocol") or {}
        name = record.get("scenario") or case["id"].split(".")[1]
        scenario = found.setdefault(name, {"name": name, "proves": record.get("proves", ""), "real": None, "teeth": []})
        if record.get("tooth"):
            scenario["teeth"].append({"case": case, "tooth": record["tooth"], "runs": len(record.get("runs", ()))})
        else:
            runs: Sequence[Mapping[str, Any]] = record.get("runs", ())
            scenario["real"] = {"case": case, "runs": runs}
    return list(found.values())


def _base(report: Mapping[str, Any]) -> JsonDict | None:
    """The comparison with a base, if there is one: its lines, and its cases of each kind with why they are red."""
    base = report.get("base")
    if base is None:
        return None
    reasons = {case["id"]: case["reason"] for stage in report["stages"] for case in stage["cases"]}
    own = {case["id"]: case["reason"] for case in base["cases"]}
    return {
        "title": title(base),
        "counted": counted(base),
        "summary": [kernel_line(base), output_line(base), *perf.lines(base["perf"]), *base["notes"]],
        "red": [
            (kind, [(i, reasons[i] or f"on the base: {own[i]}") for i in ids]) for kind, ids in base["red"].items()
        ],
        "comparison": base,
    }


def _calibration(report: Mapping[str, Any]) -> list[tuple[str, list[JsonDict]]] | None:
    """Entries of the calibration by what became of them, differences first; ``None`` for a report without one."""
    part = report.get("calibration")
    if part is None:
        return None
    return [
        (status, [e for e in part["entries"] if e["status"] == status]) for status in (DIFFERENT, LOST, NOT_COMPARED)
    ]


def _findings(cases: Sequence[Mapping[str, Any]]) -> list[JsonDict]:
    """Findings of cases that did not pass, those at the same place and of the same check together."""
    groups: dict[tuple[Any, ...], JsonDict] = {}
    for case in cases:
        for finding in case["findings"]:
            key = (finding["check"], finding["source_file"], finding["source_line"], finding["argument"])
            group = groups.setdefault(key, {"finding": finding, "cases": [], "occurrences": 0})
            group["occurrences"] += finding["occurrences"]
            if case["id"] not in group["cases"]:
                group["cases"].append(case["id"])
    return list(groups.values())
