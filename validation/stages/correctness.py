"""Run each grid case through the public function and compare with the oracle.

A pass needs everything at once: launches observed by the launch layer, among them those of every path that the case
was built for and with the shapes that it names, every comparison within its bound, no checker finding, no guard byte
changed. A launch that was expected and not seen is an error: something else than the kernel may have produced the
right numbers.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from typing import Any

from validation.base.outputs import hashes as outputs_of
from validation.cases import Task, case_seed, fragment
from validation.grid import Case, GridError
from validation.launched import lacking
from validation.operation import EntryPoint, JsonDict, SkipCase, resolve_reference
from validation.stages import Request
from validation.stages.blame import raised_in

NAME = "correctness"
TITLE = "Correctness grid"
NEEDS = "emulated"
LEVEL = None
SETTLES = True
#: Which workgroups of a case's launches were to run.
ALL, CHOSEN = "all", "chosen"


def grid_cases(entry: EntryPoint, request: Request) -> list[Case]:
    """The cases of ``entry`` under the request's cover."""
    covers = {"pairwise": lambda: entry.grid.pairwise(request.seed), "full": entry.grid.full}
    return covers[request.cover]()


def plan(request: Request) -> list[Task]:
    """One task for each grid case of each entry point."""
    return [
        _task(request, entry, case) for entry in request.operation.entry_points for case in grid_cases(entry, request)
    ]


def _task(request: Request, entry: EntryPoint, case: Case) -> Task:
    case_id = f"{NAME}.{entry.name}.{case.name}"
    seed = case_seed(request.seed, case_id)
    payload = {"op": request.operation_name, "entry": entry.name, "case": case.name, "seed": seed}
    payload |= {"whole": request.level == "full", "hashes": request.hashes}
    group = entry.variant(case.params) if entry.launches(case.params) else ""
    return Task(case_id, NAME, payload, case.why, case.params, seed, entry.timeout_s, group)


def find(request: Request, case_id: str) -> Task:
    """The task of that name: the name alone rebuilds the case, whether or not the cover chose it."""
    parts = case_id.split(".", 2)
    if len(parts) != 3:
        raise LookupError(f"case {case_id!r} must look like {NAME}.<entry point>.<axis labels>")
    entry = request.operation.entry_point(parts[1])
    try:
        case = entry.grid.decode(parts[2])
    except GridError as error:
        raise LookupError(f"no case {case_id!r}: {error}") from error
    return _task(request, entry, case)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Run one case and judge it."""
    operation = context.operation(payload["op"])
    entry: EntryPoint = operation.entry_point(payload["entry"])
    case = entry.grid.decode(payload["case"])
    driver = resolve_reference(entry.driver)()
    with context.bench() as bench:
        bench.whole = payload["whole"]
        try:
            inputs = driver.prepare(case, bench, payload["seed"])
        except SkipCase as skipped:
            return fragment("skip", str(skipped))
        workgroups = driver.workgroups(inputs)
        with bench.session(workgroups) as session:
            try:
                outputs = driver.run(inputs)
                failure = None
            except Exception as error:  # of whatever kind: _accuse raises again what is not the code under test's
                failure = _accuse(error, bench, operation.packages)
        if failure:
            return failure | {"launches": session.launches}
        comparisons = driver.check(inputs, outputs)
        evidence = {"comparisons": comparisons, "launches": session.launches, "findings": session.findings}
        built_for = list(entry.paths(case.params)) if entry.launches(case.params) else []
        taken = operation.paths_of([launch["kernel"] for launch in session.launches if launch["workgroups_run"]])
        missing = [path for path in built_for if path not in taken]
        whole = workgroups is None
        shapes = entry.shapes_due(case.params)
        status, reason = judge(evidence, bench.guard_damage(), entry.launches(case.params), missing, whole, shapes)
        facts = {"launch_expected": entry.launches(case.params), "built_for": built_for, "paths": taken}
        facts["shapes"] = shapes
        facts["workgroups"] = ALL if whole else CHOSEN
        facts["axes"] = entry.grid.labels(case.name)
        formed = all(check["passed"] for check in comparisons if check["tier"] == "form")
        if payload.get("hashes") and formed and hasattr(driver, "results"):
            facts["outputs"] = outputs_of(driver.results(inputs, outputs))
        return fragment(status, reason, facts=facts, **evidence)


def judge(
    evidence: JsonDict,
    damaged: list[str],
    launch_expected: bool,
    missing_paths: Sequence[str] = (),
    whole: bool = False,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[str, str]:
    """Status and reason of a case that ran to its end. ``missing_paths``: those it was built for and did not take.

    whole: every workgroup of each launch was to run. shapes: what the launches must have seen.
    """
    findings, comparisons, launches = evidence["findings"], evidence["comparisons"], evidence["launches"]
    failed = [c for c in comparisons if not c["passed"]]
    wrong: list[str] = []
    if findings:
        wrong.append(f"{_count(findings, 'checker finding')}, first: {_place(findings[0])}")
    if failed:
        wrong.append(f"{failed[0]['output']}: {failed[0]['message']}")
    if damaged:
        wrong.append(f"guard bytes changed beside {', '.join(damaged)}")
    if missing_paths and launches:
        kernels = ", ".join(launch["kernel"] for launch in launches)
        wrong.append(f"built for {' and '.join(missing_paths)}, which no launch took (launched: {kernels})")
    ran = sum(launch["workgroups_run"] for launch in launches)
    wrong += list(lacking(shapes or {}, launches))[:1] if ran else []
    if launches and not launch_expected:
        wrong.append(f"{_count(launches, 'launch')} observed, none expected")
    if wrong:
        return "fail", "; ".join(wrong)
    if launch_expected and not ran:
        return "error", "no launch was observed: the outputs did not come from a kernel that this run has seen"
    for launch in unfinished(launches) if whole else ():
        ran, grid = launch["workgroups_run"], math.prod(launch["grid"])
        return "error", f"{ran} of {grid} workgroups of {launch['kernel']} ran, and all were to"
    if not comparisons:
        return "error", "nothing was compared"
    if launch_expected and not any(check["elements"] for check in comparisons):
        return "error", "no element of any output was compared"
    return "pass", ""


def unfinished(launches: Sequence[JsonDict]) -> list[JsonDict]:
    """Receipts of launches of which not every workgroup ran."""
    return [launch for launch in launches if launch["workgroups_run"] < math.prod(launch["grid"])]


def _count(items: list[Any], noun: str) -> str:
    plural = noun + ("es" if noun.endswith("ch") else "s")
    return f"{len(items)} {noun if len(items) == 1 else plural}"


def _place(finding: JsonDict) -> str:
    where = f"{finding['source_file']}:{finding['source_line']}" if finding.get("source_file") else "unknown line"
    where += f" (in {finding['via']})" if finding.get("via") else ""
    return f"{finding['check']} at {where}: {finding['message']}"


def _accuse(error: Exception, bench: Any, packages: tuple[str, ...]) -> JsonDict:
    """Whose fault an exception of the public call is: the kernel's, the operation's, or ours (re-raised)."""
    detail = "".join(traceback.format_exception(error))
    blamed = bench.blame(error)
    if blamed is not None:
        reason, findings = blamed
        return fragment("fail", reason, findings=findings, detail=detail)
    if raised_in(error) in packages:
        return fragment("fail", f"refused a legal call: {type(error).__name__}: {error}", detail=detail)
    raise error
