"""SARIF 2.1.0 (OASIS, sarif-v2.1.0-os): what is wrong and where in the source, for code scanning.

Results are checker findings, each once however many cases show it, and cases that failed without one (a wrong value,
a broken contract), which have no source line and so only a logical location. Our own errors are notifications of the
invocation: they say nothing about the code under test.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from validation.cases import COMMAND
from validation.operation import JsonDict

SCHEMA_URI = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "SRCROOT"
_CASES_SHOWN = 5

#: What each check looks for. A check without a row gets its name.
RULES: dict[str, str] = {
    "memcheck": "An access outside of every allocation, or outside of the one that the pointer came from.",
    "initcheck": "A read of bytes of global memory or LDS that nothing has written.",
    "waits": "A register or memory used before the wait that its load or store needs.",
    "racecheck": "Two waves touch the same bytes, one of them writing, with nothing that orders them.",
    "synccheck": "A barrier that not all waves of a workgroup can reach.",
    "deadlock": "Waves wait for what nobody will do.",
    "correctness": "An output is outside of the bound that the arithmetic of a correct kernel allows.",
    "contract": "An illegal call was accepted, refused with the wrong error, or changed memory.",
    "compile": "A kernel was built for another target or takes more than its limits.",
    "protocol": "Launches together do not keep the protocol, or a broken variant of it went unnoticed.",
    "mutants": "A known defect, put into the code, was not killed by the check that is there for it.",
    "cost": "A call moves or executes more than its limit or budget.",
    "policy": "The change demands less of the code than the base did: a tolerance, a skip, a grid case, a threshold.",
}


def sarif(report: Mapping[str, Any]) -> str:
    """The report's findings and failures as one SARIF log, with one run."""
    results = [*_findings(report), *_failures(report), *_policy(report)]
    names = list(dict.fromkeys(result["ruleId"] for result in results))
    for result in results:
        result["ruleIndex"] = names.index(result["ruleId"])
    run = {
        "tool": {
            "driver": {
                "name": COMMAND,
                "version": report["environment"]["packages"].get("hcgr") or "unknown",
                "rules": [_rule(name) for name in names],
            }
        },
        "automationDetails": {"id": f"{COMMAND}/{report['operation']['name']}/{report['arch']}/"},
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the checkout under test."}}},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report)],
        "results": results,
        "properties": {"verdict": report["verdict"]["text"], "commit": report["source"]["commit"]},
    }
    return json.dumps({"$schema": SCHEMA_URI, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False) + "\n"


def fingerprint(finding: Mapping[str, Any]) -> str:
    """The identity of a finding over runs: check, file, operation and argument, but no line, register or address."""
    mnemonic = finding["instruction"].partition(" ")[0]
    parts = (finding["check"], _path(finding["source_file"] or finding["kernel"]), mnemonic, finding["argument"])
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _rule(name: str) -> JsonDict:
    text = RULES.get(name, f"The check {name}.")
    return {
        "id": name,
        "shortDescription": {"text": text},
        "help": {"text": f"{text} Each result names cases that show it, and the command that replays one alone."},
        "defaultConfiguration": {"level": "error"},
    }


def _invocation(report: Mapping[str, Any]) -> JsonDict:
    verdict = report["verdict"]
    errors = [case for stage in report["stages"] for case in stage["cases"] if case["status"] == "error"]
    return {
        "executionSuccessful": verdict["result"] != "INCONCLUSIVE",
        "exitCode": verdict["exit_code"],
        "exitCodeDescription": verdict["text"],
        "arguments": report["command"][1:],
        "startTimeUtc": report["started"],
        "toolExecutionNotifications": [
            {"level": "error", "message": {"text": f"{case['id']}: {case['reason']}\nreplay: {case['replay']}"}}
            for case in errors
        ],
    }


def _findings(report: Mapping[str, Any]) -> Iterator[JsonDict]:
    """One result for each distinct finding (same fingerprint and line) of the cases that failed."""
    groups: dict[tuple[str, Any], list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for case in _failed(report):
        for finding in case["findings"]:
            groups.setdefault((fingerprint(finding), finding["source_line"]), []).append((finding, case))
    for (identity, _), members in groups.items():
        finding, case = members[0]
        result = _result(finding["check"], finding["message"], [case for _, case in members])
        result["occurrenceCount"] = sum(member["occurrences"] for member, _ in members)
        result["partialFingerprints"] = {"hcgrFinding/v1": identity}
        location = _physical(finding["source_file"], finding["source_line"])
        result["locations"] = [location | _logical(finding["kernel"], "function")]
        helper = _place(finding["via"])
        if helper:
            result["relatedLocations"] = [_physical(*helper) | {"message": {"text": "emitted by this helper"}}]
        yield result


def _failures(report: Mapping[str, Any]) -> Iterator[JsonDict]:
    """One result for each case that failed without a finding."""
    for case in _failed(report):
        if not case["findings"]:
            result = _result(case["stage"], case["reason"], [case])
            result["partialFingerprints"] = {"hcgrCase/v1": hashlib.sha256(case["id"].encode()).hexdigest()}
            result["locations"] = [_logical(case["id"], "member")]
            yield result


def _policy(report: Mapping[str, Any]) -> Iterator[JsonDict]:
    """One result for each policy finding that nobody accepted."""
    for finding in (report.get("base") or {"policy": ()})["policy"]:
        if not finding["accepted"]:
            name, values = finding["name"], f"{finding['base'] or 'none'} -> {finding['head'] or 'none'}"
            text = f"{name}: {finding['what']}: {values}\nAccept: --accept-policy {shlex.quote(name)}"
            yield {
                "ruleId": "policy",
                "kind": "fail",
                "level": "error",
                "message": {"text": text},
                "partialFingerprints": {"hcgrPolicy/v1": hashlib.sha256(name.encode()).hexdigest()},
                "locations": [_physical(finding["file"], finding["line"]) | _logical(name, "member")],
            }


def _failed(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [case for stage in report["stages"] for case in stage["cases"] if case["status"] == "fail"]


def _result(rule: str, message: str, cases: Sequence[Mapping[str, Any]]) -> JsonDict:
    names = list(dict.fromkeys(case["id"] for case in cases))
    more = f" and {len(names) - _CASES_SHOWN} more" if len(names) > _CASES_SHOWN else ""
    shown = "\n".join(f"  {name}" for name in names[:_CASES_SHOWN])
    text = f"{message}\nShown by:\n{shown}{more}\nReplay: {cases[0]['replay']}"
    return {"ruleId": rule, "kind": "fail", "level": "error", "message": {"text": text}}


def _physical(file: str | None, line: int | None) -> JsonDict:
    if not file:
        return {}
    path = PurePath(_path(file))
    artifact = {"uri": path.as_uri()} if path.is_absolute() else {"uri": quote(str(path)), "uriBaseId": ROOT}
    region = {"region": {"startLine": line}} if line else {}
    return {"physicalLocation": {"artifactLocation": artifact} | region}


def _logical(name: str, kind: str) -> JsonDict:
    return {"logicalLocations": [{"fullyQualifiedName": name, "kind": kind}]}


def _place(via: str | None) -> tuple[str, int] | None:
    match = re.fullmatch(r"(.+):(\d+)", via or "")
    return (match[1], int(match[2])) if match else None


def _path(file: str) -> str:
    """``file`` with forward slashes and without a leading ``./``."""
    return file.replace("\\", "/").removeprefix("./")
