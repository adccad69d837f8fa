"""Count what calls cost: lines moved, matrix instructions, launches and registers, against limits and a budget.

Counts are exact, for they come from the executed machine code; times are a roofline projection and marked as one.
"""

from __future__ import annotations

import traceback
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


def find(request: Request, case_id: str) -> Task:
    """The task of that name."""
    return find_planned(plan(request), case_id)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Measure one call and judge it."""
    operation = context.operation(payload["op"])
    model: CostModel = operation.cost
    case = model.case(context.arch, payload["case"])
    driver = resolve_reference(model.driver)()
    with context.bench() as bench:
        try:
            row = driver.measure(case, bench)
        except Exception as error:
            if raised_in(error) not in operation.packages:
                raise
            reason = f"refused a legal call: {type(error).__name__}: {error}"
            return fragment("fail", reason, detail="".join(traceback.format_exception(error)))
    checks = driver.judge(row)
    wrong = "; ".join(f"{check['output']}: {check['message']}" for check in checks if not check["passed"])
    return fragment("fail" if wrong else "pass", wrong, comparisons=checks, cost=row)
