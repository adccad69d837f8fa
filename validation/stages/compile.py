"""Compile every kernel that the grid launches, one task a variant, and read what each takes.

A kernel with spills or scratch beyond its entry point's limits fails. A compiler that dies takes only this variant
with it, and its last words become the case's reason; so do errors that it prints without failing.
"""

from __future__ import annotations

import re
from typing import Any

from validation.cases import Task, fragment
from validation.operation import EntryPoint, JsonDict, resolve_reference
from validation.stages import Request, find_planned
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
    tasks = []
    for entry in request.operation.entry_points:
        variants: dict[str, list[str]] = {}
        for case in grid_cases(entry, request):
            if entry.launches(case.params):
                variants.setdefault(entry.variant(case.params), []).append(case.name)
        for variant, names in variants.items():
            payload = {"op": request.operation_name, "entry": entry.name, "cases": names}
            why = (f"needed by {len(names)} grid case{'' if len(names) == 1 else 's'}, first {names[0]}",)
            tasks.append(
                Task(
                    f"{NAME}.{entry.name}.{variant}",
                    NAME,
                    payload,
                    why,
                    {"variant": variant},
                    timeout_s=entry.timeout_s,
                )
            )
    return tasks


def find(request: Request, case_id: str) -> Task:
    """The task of that name; variants that the chosen cover leaves out are looked for in the full grid."""
    for cover in (request.cover, "full"):
        tasks = plan(Request(request.operation, request.operation_name, request.arch, request.seed, cover))
        if cover == "full" or any(task.id == case_id for task in tasks):
            return find_planned(tasks, case_id)
    raise AssertionError("unreachable: the full cover answers or raises")


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Build the kernels of one variant and judge their resources."""
    entry: EntryPoint = context.operation(payload["op"]).entry_point(payload["entry"])
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
    if foreign:
        return fragment("error", "; ".join(foreign), resources=records)
    if over:
        return fragment("fail", "; ".join(over), resources=records)
    return fragment("pass", resources=records)
