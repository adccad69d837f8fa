"""A Dask worker that runs several cases is lost: with which of them, nobody knows, so none is blamed unheard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from validation.cases import Outcome, Task
from validation.devices.pool import latest
from validation.executors import Local, cluster, site, spread
from validation.report.executor import contradictions, executor_lines

MODULES = {"fake": "tests.devices.pool_tasks"}
DEVICE = "validation.devices.emulator"
WORKER = {"name": "tcp://host:2", "machine": "host", "slots": 2, "cases": 8, "lost": False}


class FakeCluster:
    """Dask workers with threads, of which one goes as soon as it runs a task called ``kills``; another one comes."""

    packages, ours = (), {"sources": ""}

    def __init__(self, slots: int) -> None:
        self.slots, self.suspected, self.came = slots, 0, 0
        self.members: dict[str, cluster.Member] = {}
        self.futures: list[SimpleNamespace] = []
        self.beside: list[tuple[str, ...]] = []
        self.client: Any = SimpleNamespace(submit=self.submit, run=lambda *_, workers, **__: {w: [] for w in workers})
        self.come()

    def come(self) -> None:
        self.came += 1
        self.members[f"w{self.came}"] = cluster.Member(f"w{self.came}", "host", self.slots)

    def there(self) -> dict[str, int]:
        return dict.fromkeys(self.members, self.slots)

    def sharing(self, member: cluster.Member) -> int:
        return self.slots

    def submit(self, what: Any, spec: Any, index: int, sharing: int, task: Task, *rest: Any, **options: Any) -> Any:
        answer = site.Answer(((task, Outcome({})),), 0)
        future = SimpleNamespace(task=task, at=options["workers"][0], status="pending", looks=0)
        future.result, future.exception = lambda timeout: answer, lambda: None
        future.cancel = lambda: self.futures.remove(future) if future in self.futures else None
        future.add_done_callback = lambda called: setattr(future, "ended", called)
        self.futures.append(future)
        return future

    def look(self) -> None:
        """Time goes by: workers that run a killer go; other tasks take two looks."""
        for address in sorted({future.at for future in self.futures}):
            running = [future for future in self.futures if future.at == address]
            if any(future.task.id.startswith("kills") for future in running):
                self.beside.append(tuple(future.task.id for future in running))
                del self.members[address]
                self.come()
                continue
            for future in running:
                future.looks += 1
                if future.looks == 2:
                    future.status = "finished"
                    self.futures.remove(future)
                    future.ended(future)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_what_ran_beside_a_case_that_ends_its_worker_is_not_lost_with_it(
    slots: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "TICK_S", 0.0)
    made: Any = FakeCluster(slots)
    given = [Task(name, "fake", {}) for name in ("a", "kills", "b", "c", "d", "kills too", "e")]
    with spread.DaskPool(made, "gfx942", DEVICE, {}) as pool:
        ended = {name: outcome for name, (_, outcome) in latest(pool.run(given, MODULES)).items()}
    assert set(ended) == {task.id for task in given}
    assert {name for name, outcome in ended.items() if outcome.error} == {"kills", "kills too"}
    assert "was lost 3 times (w" in ended["kills"].error
    crowded = [names for names in made.beside if len(names) > 1]
    alone = [names for names in made.beside if len(names) == 1]
    assert sorted(alone) == sorted([("kills",), ("kills too",)] * 3)  # only what was lost alone is held against it
    assert made.suspected == sum(map(len, crowded))
    assert bool(crowded) == (slots > 1)


def test_a_report_says_which_cases_ran_again_alone() -> None:
    record = Local().record() | {"name": "dask", "scheduler": "s", "workers": [WORKER], "again_alone": 2}
    assert list(contradictions(record, 8)) == []
    assert any(
        "2 cases ran again, alone: a worker was lost while it ran several" in line for line in executor_lines(record)
    )
    assert list(contradictions(Local().record() | {"again_alone": 2}, 8))
