"""How the suite is spread over processes (``pytest -n auto``).

Many files run all their cases of one architecture in one subprocess, once, and judge each as a test of its own. Such
tests belong together: spread test by test, every process would run the same subprocess again.
"""

from __future__ import annotations

from typing import Any

import pytest

#: Parameters that name a subprocess of their own; whole ones, for a name like ``gemm_split_k`` is no group.
GROUPS = ("gfx942", "gfx950", "fused", "split_k", "resident", "decoupled")
#: Where tests share no subprocess: a test function is a group of its own.
FINE = "tests/conformance"
#: Where the long groups are, the longest first. One that began last would leave the other processes without work.
LONG = (
    "tests/triton_programs",
    "tests/hcgr",
    "tests/flydsl_programs",
    "tests/emulator/race",
    "tests/validation",
    "tests/plugin",
    "tests/mutation",
    "tests/base",
)


def _rank(scope: str) -> int:
    return next((place for place, folder in enumerate(LONG) if scope.startswith(folder)), len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFileAndGroup(LoadScopeScheduling):
        """Tests of one file and one group run in one process, long groups first."""

        def _split_scope(self, nodeid: str) -> str:
            file, _, rest = nodeid.partition("::")
            parameters = rest.partition("[")[2].rstrip("]").split("-")
            finer = [rest.partition("[")[0]] if file.startswith(FINE) else []
            return ":".join([file, *finer, *(group for group in GROUPS if group in parameters)])

        def _assign_work_unit(self, node: Any) -> None:
            waiting = [(place, scope) for scope in self.workqueue if (place := _rank(scope)) < len(LONG)]
            if waiting:
                _, longest = min(waiting, key=lambda found: found[0])
                self.workqueue.move_to_end(longest, last=False)
            super()._assign_work_unit(node)

    return ByFileAndGroup(config, log)
