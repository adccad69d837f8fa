"""Worker side: one case of the head's plan on the base's code, in an answer that proves whose code it was."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from validation.cases import Task, fragment
from validation.operation import JsonDict
from validation.stages import stage

MODULE = "validation.base.case"

#: A call that failed for what the base does not have: it says nothing of what the base computes.
_LACKS = re.compile(
    r"\b(?:(?:ModuleNotFound|Import|Attribute|Name)Error: |TypeError: [^;]*(?:keyword argument|positional argument))"
)


class OtherCodeError(RuntimeError):
    """The worker did not import the base's code, or the case means something else there; nothing was compared."""


def wrapped(task: Task, folder: Path, packages: tuple[str, ...]) -> Task:
    """``task`` for a worker that runs the code in ``folder``."""
    payload = {
        "stage": task.stage,
        "payload": task.payload,
        "folder": str(folder),
        "packages": list(packages),
        "params": identity(task.params),
    }
    return replace(task, payload=payload)


def identity(params: Mapping[str, Any]) -> str:
    """A name for a case's parameters, the same in every process."""
    return hashlib.sha256(repr(sorted(params.items())).encode()).hexdigest()


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Carry out the case on the base.

    Raises:
        OtherCodeError: a package came from elsewhere, or the case's parameters are not those of the head.
    """
    require_code(payload, context)
    folder, inner = Path(payload["folder"]), payload["payload"]
    value: JsonDict = without(stage(payload["stage"]).execute(inner, context), f"{folder}{os.sep}")
    if value["status"] == "fail" and _LACKS.search(value["reason"]):
        return fragment(
            "error", f"the base lacks what the case needs: {value['reason']}", detail=value.get("detail", "")
        )
    return value


def require_code(payload: JsonDict, context: Any) -> None:
    """That this process runs the base's code, and that the case of :func:`wrapped` means the same with it.

    Raises:
        OtherCodeError: see :func:`execute`.
    """
    folder = Path(payload["folder"])
    for package in payload["packages"]:
        place = Path(str(importlib.import_module(package).__file__)).resolve()
        if not place.is_relative_to(folder.resolve()):
            raise OtherCodeError(f"package {package} was imported from {place}, not from the base")
    inner = payload["payload"]
    if payload["stage"] == "correctness":
        case = context.operation(inner["op"]).entry_point(inner["entry"]).grid.decode(inner["case"])
        if identity(case.params) != payload["params"]:
            raise OtherCodeError("the case's name stands for other parameters with the base's code")


def without(value: Any, text: str) -> Any:
    """``value`` with ``text`` taken out of every string in it."""
    if isinstance(value, str):
        return value.replace(text, "")
    if isinstance(value, Mapping):
        return {key: without(item, text) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without(item, text) for item in value]
    return value
