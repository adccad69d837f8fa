"""Compile every kernel that the grid launches, one task a variant, and read what each takes.

A kernel with spills or scratch beyond its entry point's limits fails. A compiler that dies takes only this variant
with it, and its last words become the case's reason; so do errors that it prints without failing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from validation.base import machine_code
from validation.cases import Task, fragment
from validation.operation import EntryPoint, JsonDict, resolve_reference
from validation.stages import Request, find_planned, no_case
from validation.stages.correctness import grid_cases
from validation.stages.isa import kernel_resources

NAME = "compile"
TITLE = "Compile"
NEEDS = "compile-only"
LEVEL = "compile-only"
SETTLES = False

_COMPILER_ERROR = re.compile(r"^.*\b(?:error|LLVM ERROR|fatal error):.*$", re.MULTILINE)


def plan(request: Request) -> list[Task]:
    """One task for each variant; it builds whatever the variant's grid cases launch."""
    return [task for entry in request.operation.entry_points for task in _tasks(request, entry)]


def _tasks(request: Request, entry: EntryPoint) -> list[Task]:
    variants: dict[str, list[str]] = {}
    for case in grid_cases(entry, request):
        if entry.launches(case.params):
            variants.setdefault(entry.variant(case.params), []).append(case.name)
    tasks = []
    for variant, names in variants.items():
        payload = {"op": request.operation_name, "entry": entry.name, "cases": names, "hashes": request.hashes}
        why = (f"needed by {len(names)} grid case{'' if len(names) == 1 else 's'}, first {names[0]}",)
        named = f"{NAME}.{entry.name}.{variant}"
        tasks.append(Task(named, NAME, payload, why, {"variant": variant}, timeout_s=entry.timeout_s, group=variant))
    return tasks


def find(request: Request, case_id: str) -> Task:
    """The task of that name; variants that the chosen cover leaves out are looked for in the full grid."""
    parts = case_id.split(".", 2)
    if len(parts) != 3:
        raise LookupError(f"case {case_id!r} must look like {NAME}.<entry point>.<variant>")
    entry = request.operation.entry_point(parts[1])
    tasks = _tasks(request, entry)
    known = {task.id: task for task in tasks}
    if case_id not in known and request.cover != "full":
        if parts[2] not in entry.grid.results(entry.variant):
            raise no_case(case_id, list(known))
        tasks = _tasks(replace(request, cover="full"), entry)
    return find_planned(tasks, case_id)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Build the kernels of one variant and judge their resources."""
    operation = context.operation(payload["op"])
    entry: EntryPoint = operation.entry_point(payload["entry"])
    driver = resolve_reference(entry.driver)()
    built = (driver.build(entry.grid.decode(name), context.arch) for name in payload["cases"])
    texts = list(dict.fromkeys(text for texts in built for text in texts))
    complaints = _COMPILER_ERROR.findall(context.stderr_text())
    if complaints:
        return fragment("error", f"the compiler printed: {complaints[0].strip()}", detail="\n".join(complaints))
    if not texts:
        return fragment("error", "the driver built no kernel")
    resources = [kernel for text in texts for kernel in kernel_resources(text)]
    over = [
        f"{kernel.kernel}: {name} is {getattr(kernel, name)}, at most {limit} accepted"
        for kernel in resources
        for name, limit in entry.limits.items()
        if getattr(kernel, name) > limit
    ]
    foreign = [
        f"{kernel.kernel} was built for {kernel.target!r}" for kernel in resources if kernel.target != context.arch
    ]
    records = [kernel.as_json() for kernel in resources]
    facts = machine_code.facts(texts, operation.packages) if payload.get("hashes") else {}
    if foreign:
        return fragment("error", "; ".join(foreign), resources=records)
    if over:
        return fragment("fail", "; ".join(over), resources=records, facts=facts)
    return fragment("pass", resources=records, facts=facts)
