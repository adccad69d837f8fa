"""A report that was tampered with, or that claims what did not happen, is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import validation_fakes as fakes

from schemas import load_schema
from validation.report.check import InvalidReportError, problems, require_valid
from validation.report.verdict import decide, evidence_level
from validation.report.writer import report_paths, write_report
from validation.runner import Plan, run_arch
from validation.stages.isa import MetadataError, kernel_resources

Report = dict[str, Any]


class _Quiet:
    def stage_started(self, arch: str, title: str, total: int) -> None: ...
    def case_done(self, arch: str, record: Report) -> None: ...
    def stage_skipped(self, arch: str, title: str, reason: str) -> None: ...


@pytest.fixture(scope="module")
def genuine() -> Report:
    plan = Plan(fakes.GOOD, "validation_fakes:GOOD", jobs=1, device_modules=("validation_fakes",))
    return run_arch(plan, "gfx942", _Quiet())


def first(report: Report, stage: int) -> Report:
    case: Report = report["stages"][stage]["cases"][0]
    return case


def _drop_case(report: Report) -> None:
    report["stages"][2]["cases"].pop()


def _failed_but_pass(report: Report) -> None:
    first(report, 2)["comparisons"][0]["passed"] = False


def _forged_pass(report: Report) -> None:
    report["stages"][2]["cases"] = []
    report["stages"][2]["counts"] = dict.fromkeys(("pass", "fail", "skip", "error", "total"), 0)


def _twice(report: Report) -> None:
    report["stages"][2]["cases"].append(copy.deepcopy(first(report, 2)))


TAMPERED: dict[str, tuple[Callable[[Report], Any], str]] = {
    "extra key": (lambda r: r.update(note="trust me"), "Additional properties are not allowed"),
    "missing key": (lambda r: r.pop("seed"), "'seed' is a required property"),
    "unknown status": (lambda r: first(r, 2).update(status="xfail"), "'xfail' is not one of"),
    "NaN as a number": (lambda r: r.update(duration_s="nan"), "is not of type 'number'"),
    "verdict": (lambda r: r["verdict"].update(result="FAIL"), "verdict is"),
    "exit code": (lambda r: r["verdict"].update(exit_code=3), "verdict is"),
    "required": (lambda r: r["evidence"].update(required="runtime"), "verdict is"),
    "scope": (lambda r: r["verdict"].update(left_out=["stage contract"]), "verdict is"),
    "counts": (lambda r: r["counts"].update({"pass": 99}), "counts are"),
    "stage counts": (lambda r: r["stages"][2]["counts"].update({"fail": 1}), "its cases add up to"),
    "dropped case": (_drop_case, "its cases add up to"),
    "case twice": (_twice, "appears more than once"),
    "stage status": (lambda r: r["stages"][2].update(status="skip", reason="x"), "status is skip"),
    "empty pass": (_forged_pass, "status is pass, its cases give skip"),
    "failed comparison": (_failed_but_pass, "passes with a failed comparison"),
    "finding": (lambda r: first(r, 2)["findings"].append(fakes.FINDING), "passes with 1 findings"),
    "no receipt": (lambda r: first(r, 2).update(launches=[]), "passes with 0 workgroups run"),
    "no comparison": (lambda r: first(r, 2).update(comparisons=[]), "passes without comparisons"),
    "no resources": (lambda r: first(r, 1).update(resources=[]), "passes without resources"),
    "foreign arch": (lambda r: first(r, 2)["launches"][0].update(arch="gfx950"), "launched code for gfx950"),
    "replay": (lambda r: first(r, 2).update(replay="true"), "replay command does not name it"),
    "other level": (lambda r: r["stages"][2].update(evidence="runtime"), "on a device that gives emulated"),
    "failing case": (lambda r: first(r, 2).update(status="fail"), "counts are"),
    "wrong stage": (lambda r: first(r, 2).update(stage="contract"), "belongs to stage contract"),
    "worst": (lambda r: r.update(worst=None), "worst is not the largest"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampered_report_is_refused(genuine: Report, name: str, tmp_path: Path) -> None:
    tamper, words = TAMPERED[name]
    report = copy.deepcopy(genuine)
    require_valid(report)
    tamper(report)
    found = problems(report)
    assert any(words in problem for problem in found), found
    path = tmp_path / "out.json"
    with pytest.raises(InvalidReportError):
        write_report(path, report)
    assert not path.exists()


def test_written_report_is_the_report(genuine: Report, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    write_report(path, genuine)
    assert json.loads(path.read_text()) == genuine
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_schema_is_a_schema_and_strict() -> None:
    schema = load_schema("report")
    jsonschema.Draft202012Validator.check_schema(schema)

    def objects(node: Any) -> list[Report]:
        if isinstance(node, list):
            return [o for item in node for o in objects(item)]
        if not isinstance(node, dict):
            return []
        own = [node] if "properties" in node else []
        return own + [o for item in node.values() for o in objects(item)]

    strict = objects(schema)
    assert len(strict) > 10
    optional = {id(schema): {"base", "calibration"}}  # a run without --base or --calibrate says nothing of them
    for each in (schema["properties"]["workers"], schema["$defs"]["part"]):  # nor older reports, and merged ones
        optional[id(each)] = {"executor"}
    optional[id(schema["$defs"]["launch"])] = {"arguments"}  # nor what a launch layer could not see
    optional[id(schema["$defs"]["executor"])] = {"again_alone"}  # on one machine no worker is lost with others
    perf = schema["$defs"]["base"]["properties"]["perf"]  # without a GPU nothing is timed
    optional[id(perf)] = {"rounds", "cases", "not_timed"}
    cost = schema["$defs"]["cost"]  # nor older ones of the work
    optional[id(cost)] = {"work"}
    optional[id(cost["properties"]["budget"]["anyOf"][1])] = {"bytes_requested", "valu", "lds_cycles"}
    for each in strict:
        assert each.get("additionalProperties") is False
        assert set(each["required"]) == set(each["properties"]) - optional.get(id(each), set())


def test_unknown_schema_names_those_there_are() -> None:
    with pytest.raises(LookupError, match=r"no schema 'nothing' \(schemas: .*report"):
        load_schema("nothing")


def test_report_names_follow_the_arch() -> None:
    assert report_paths(Path("a/out.json"), ["gfx942"]) == {"gfx942": Path("a/out.json")}
    assert report_paths(Path("a/out.json"), ["gfx942", "gfx950"]) == {
        "gfx942": Path("a/out.gfx942.json"),
        "gfx950": Path("a/out.gfx950.json"),
    }


def stage(name: str, status: str = "pass", evidence: str = "emulated", settles: bool = True) -> Report:
    counts = dict.fromkeys(("pass", "fail", "skip", "error", "total"), 0)
    counts[status] = counts["total"] = 1
    return {
        "name": name,
        "status": status,
        "reason": "why",
        "evidence": evidence,
        "settles": settles,
        "deselected": False,
        "planned": 1,
        "counts": counts,
    }


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ([stage("correctness"), stage("contract")], "PASS (emulated)"),
        ([stage("correctness", evidence="runtime"), stage("contract", evidence="runtime")], "PASS (runtime)"),
        ([stage("correctness", evidence="runtime"), stage("contract")], "PASS (emulated)"),
        ([stage("correctness", "fail"), stage("contract", "error")], "FAIL (emulated)"),
        ([stage("correctness", "error", "none"), stage("contract")], "INCONCLUSIVE (emulated)"),
        ([stage("correctness", "skip", "none"), stage("contract")], "INCONCLUSIVE (emulated)"),
        ([stage("compile", evidence="compile-only", settles=False)], "INCONCLUSIVE (compile-only)"),
        ([stage("compile", "fail", evidence="compile-only", settles=False)], "FAIL (compile-only)"),
        ([stage("environment", evidence="none", settles=False)], "INCONCLUSIVE (none)"),
    ],
)
def test_verdict_follows_from_the_stages(stages: list[Report], text: str) -> None:
    verdict = decide(stages, None, [])
    assert verdict["text"] == text
    assert verdict["evidence"] == evidence_level(stages)
    assert verdict["exit_code"] == {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 3}[verdict["result"]]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace(".amdgpu_metadata", ".other"), "no .amdgpu_metadata section"),
        (lambda text: text.replace("gfx942", "none"), "names no gfx target"),
        (lambda text: text.replace(".vgpr_spill_count", ".nothing"), "lacks .vgpr_spill_count"),
        (lambda text: text.replace("fake_kernel:\n", "other:\n"), "no code for kernel 'fake_kernel'"),
    ],
)
def test_metadata_that_does_not_say_is_an_error(damage: Callable[[str], str], words: str) -> None:
    with pytest.raises(MetadataError) as caught:
        kernel_resources(damage(fakes.ASM.format(arch="gfx942", scratch=0)))
    assert words in str(caught.value)


def test_flushes_of_whole_caches_are_counted() -> None:
    asm = fakes.ASM.format(arch="gfx942", scratch=0)
    (clean,) = kernel_resources(asm)
    (flushing,) = kernel_resources(asm.replace("\tv_mov_b32 v0, s0\n", "\tbuffer_wbl2 sc1\n\tbuffer_inv sc1\n"))
    assert (clean.cache_flushes, clean.instructions) == (0, 3)
    assert (flushing.cache_flushes, flushing.instructions) == (2, 4)
