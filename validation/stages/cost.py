"""Count what calls cost: lines moved, matrix instructions, launches and registers, against limits and a budget.

Counts are exact, for they come from the executed machine code; times are a roofline projection and marked as one. A
record of kernels that this worker has not seen launched is an error: somebody else has counted them, or nobody.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from validation.cases import Task, fragment
from validation.operation import CostModel, JsonDict, resolve_reference
from validation.stages import Request, find_planned
from validation.stages.blame import raised_in

NAME = "cost"
TITLE = "Cost"
NEEDS = "emulated"
LEVEL = "emulated"
SETTLES = False


def plan(request: Request) -> list[Task]:
    """One task for each case of the operation's cost model; none without a model."""
    model = request.operation.cost
    if model is None:
        return []
    return [
        Task(
            f"{NAME}.{case.name}",
            NAME,
            {"op": request.operation_name, "case": case.name},
            (case.why,),
            case.params,
            timeout_s=case.timeout_s,
        )
        for case in model.cases(request.arch)
    ]


#: Kernels that this worker has seen launched: a driver may count a call once for several cases.
_LAUNCHED: set[str] = set()


def _watched(session: Callable[..., Any], launches: list[JsonDict]) -> Callable[..., Any]:
    """``session``, which also puts the receipts of its launches into ``launches``."""

    @contextmanager
    def watched(*arguments: Any, **options: Any) -> Iterator[Any]:
        with session(*arguments, **options) as opened:
            yield opened
        launches.extend(opened.launches)

    return watched


def find(request: Request, case_id: str) -> Task:
    """The task of that name."""
    return find_planned(plan(request), case_id)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Measure one call and judge it."""
    operation = context.operation(payload["op"])
    model: CostModel = operation.cost
    case = model.case(context.arch, payload["case"])
    driver = resolve_reference(model.driver)()
    launches: list[JsonDict] = []
    with context.bench() as bench:
        bench.session = _watched(bench.session, launches)
        try:
            row = driver.measure(case, bench)
        except Exception as error:
            if raised_in(error) not in operation.packages:
                raise
            reason = f"refused a legal call: {type(error).__name__}: {error}"
            return fragment("fail", reason, detail="".join(traceback.format_exception(error)))
    _LAUNCHED.update(launch["kernel"] for launch in launches if launch["workgroups_run"])
    unseen = [kernel for kernel in row["kernels"] if kernel not in _LAUNCHED]
    if unseen or not row["kernels"]:
        what = f"no launch of {', '.join(unseen)} was" if unseen else "no kernel is named, and no launch was"
        return fragment("error", f"{what} observed: the counts did not come from a kernel that this run has seen")
    checks = driver.judge(row)
    wrong = "; ".join(f"{check['output']}: {check['message']}" for check in checks if not check["passed"])
    return fragment("fail" if wrong else "pass", wrong, comparisons=checks, cost=row)
