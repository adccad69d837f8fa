"""A pool that stands in for the workers of ``hcgr-mutate``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from validation.cases import Outcome


class FakePool:
    """Answers each task at once: ``answers`` by task id, else a clean pass or a kill; then takes ``revised`` back."""

    answers: ClassVar[dict[str, Any]] = {}
    asked: ClassVar[list[str]] = []
    before: ClassVar[dict[str, Any]] = {}
    revised: ClassVar[list[str]] = []
    at_exit: ClassVar[list[Exception]] = []

    def __init__(self, *arguments: Any) -> None:
        pass

    def __enter__(self) -> FakePool:
        return self

    def __exit__(self, *exception: object) -> None:
        for error in FakePool.at_exit:
            raise error

    def run(self, tasks: Any, modules: Any) -> Iterator[tuple[Any, Outcome]]:
        for task in tasks:
            FakePool.asked.append(task.id)
            FakePool.before.get(task.id, lambda: None)()
            given = FakePool.answers.get(task.id)
            if isinstance(given, BaseException):
                raise given
            status = given or ("pass" if task.id.startswith("clean") else "fail")
            records = [
                {"trial": t["name"], "case": t["case"], "status": status, "reason": "r", "code": [], "invalid": False,
                 "checks": ["tolerance-control"] if status == "fail" else [], "seconds": 0.1}
                for t in task.payload["trials"]
            ]  # fmt: skip
            yield task, Outcome({"trials": records, "ended": "done", "reason": "", "cpu_s": 0.1, "peak_mib": 1})
        for task in tasks:
            if task.id in FakePool.revised:
                yield task, Outcome(None, "answered again")
