"""The error contract: each illegal call is refused before any launch, in words that help, and nothing changes."""

from __future__ import annotations

import traceback
from typing import Any

from validation import grid_control
from validation.cases import Task, case_seed, comparison, fragment
from validation.operation import ContractCall, ContractRow, EntryPoint, JsonDict, SkipCase, resolve_reference
from validation.stages import Request, find_planned
from validation.stages.blame import is_ours
from validation.stages.correctness import judge

NAME = "contract"
TITLE = "Error contract"
NEEDS = "emulated"
LEVEL = None
SETTLES = True


def plan(request: Request) -> list[Task]:
    """One task for each row of each entry point's contract."""
    tasks = []
    for entry in request.operation.entry_points:
        for row in entry.contract:
            case_id = f"{NAME}.{entry.name}.{row.name}"
            payload = {"op": request.operation_name, "entry": entry.name, "row": row.name}
            params = {"error": row.error, "mentions": list(row.mentions)}
            seed = case_seed(request.seed, case_id)
            tasks.append(Task(case_id, NAME, payload, (row.why,), params, seed, entry.timeout_s))
        if entry.invalid:
            tasks.append(_grid_control(request, entry))
    return tasks


def _grid_control(request: Request, entry: EntryPoint) -> Task:
    case_id = f"{NAME}.{entry.name}.{grid_control.ROW}"
    payload = {"op": request.operation_name, "entry": entry.name, "row": grid_control.ROW, "seed": request.seed}
    params = {"axes": [axis.name for axis in entry.grid.axes], "invalid": sorted(entry.invalid)}
    seed = case_seed(request.seed, case_id)
    return Task(case_id, NAME, payload, (grid_control.WHY,), params, seed, entry.timeout_s)


def find(request: Request, case_id: str) -> Task:
    """The task of that name."""
    return find_planned(plan(request), case_id)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Make one call and judge the refusal."""
    operation = context.operation(payload["op"])
    entry: EntryPoint = operation.entry_point(payload["entry"])
    if payload["row"] == grid_control.ROW:
        return _credit(grid_control.checks(operation, entry, payload["seed"], context.open_bench, judge))
    row = next(row for row in entry.contract if row.name == payload["row"])
    with context.bench() as bench:
        try:
            prepared: ContractCall = resolve_reference(entry.driver)().contract(row.name, bench)
        except SkipCase as reason:
            return fragment("skip", str(reason))
        before = {name: image(tensor) for name, tensor in prepared.untouched}
        raised: BaseException | None = None
        result = None
        with bench.session() as session:
            try:
                result = prepared.call()
            except Exception as error:
                if is_ours(error) and bench.blame(error) is None:
                    raise
                raised = error
        changed = [name for name, tensor in prepared.untouched if image(tensor) != before[name]]
        changed += bench.guard_damage()
        checks = [*checks_of(row, raised, prepared, result), _launches(session.launches), _untouched(changed)]
    wrong = "; ".join(check["message"] for check in checks if not check["passed"])
    detail = "".join(traceback.format_exception(raised)) if raised and wrong else ""
    evidence = {"comparisons": checks, "launches": session.launches, "findings": session.findings, "detail": detail}
    facts = {"raised": type(raised).__name__ if raised else None, "message": str(raised) if raised else ""}
    return fragment("fail" if wrong else "pass", wrong, facts=facts, **evidence)


def _credit(checks: list[JsonDict]) -> JsonDict:
    """A control that does not hold is no fault of the code under test: its grid proves nothing, either way."""
    wrong = "; ".join(check["message"] for check in checks if not check["passed"])
    return fragment("error" if wrong else "pass", wrong and f"the grid is not credited: {wrong}", comparisons=checks)


def image(tensor: Any) -> bytes:
    """Every byte that ``tensor`` spans, those between its rows included."""
    import torch  # only ever needed in a worker: planning must not pay for it

    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    flat = tensor.detach().as_strided((span,), (1,))
    return bytes(flat.cpu().contiguous().view(torch.uint8).numpy().tobytes())


def checks_of(row: ContractRow, raised: BaseException | None, call: ContractCall, result: Any) -> list[JsonDict]:
    """What ``row`` promises of a call that raised ``raised``, or returned ``result``."""
    if row.error is None:
        wrong = f"raised {type(raised).__name__}: {raised}" if raised else (call.verify and call.verify(result)) or ""
        return [comparison("result", "contract", not wrong, wrong or "as promised")]
    if raised is None:
        return [comparison("error", "contract", False, f"accepted the call, {row.error} expected")]
    kind = type(raised).__name__
    right = row.error in {base.__name__ for base in type(raised).__mro__} and not is_ours(raised)
    said = f"raised {kind}" if right else f"raised {kind}, {row.error} expected: {raised}"
    checks = [comparison("error", "contract", right, said)]
    missing = [word for word in row.mentions if word not in str(raised)]
    message = f"the message does not mention {', '.join(map(repr, missing))}: {raised}" if missing else str(raised)
    return [*checks, comparison("message", "contract", not missing, message)]


def _launches(launches: list[JsonDict]) -> JsonDict:
    names = ", ".join(launch["kernel"] for launch in launches)
    return comparison("launches", "contract", not launches, f"launched {names}" if launches else "nothing launched")


def _untouched(changed: list[str]) -> JsonDict:
    return comparison(
        "untouched", "contract", not changed, f"bytes changed in {', '.join(changed)}" if changed else "no byte changed"
    )
