"""How the suite is spread over processes (``pytest -n auto``).

Many files run all their cases of one architecture in one subprocess, once, and judge each as a test of its own. Such
tests belong together: spread test by test, every process would run the same subprocess again.
"""

from __future__ import annotations

from typing import Any

import pytest

#: Parameters that name a subprocess of their own; whole ones, for a name like ``gemm_split_k`` is no group.
GROUPS = ("gfx942", "gfx950", "fused", "split_k", "decoupled")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByFileAndGroup(LoadScopeScheduling):
        """Tests of one file and one group run in one process."""

        def _split_scope(self, nodeid: str) -> str:
            file, _, rest = nodeid.partition("::")
            parameters = rest.partition("[")[2].rstrip("]").split("-")
            return ":".join([file, *(group for group in GROUPS if group in parameters)])

    return ByFileAndGroup(config, log)
