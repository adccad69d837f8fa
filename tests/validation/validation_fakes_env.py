"""A stage that reports what its worker can see."""

from __future__ import annotations

import os
from typing import Any

from validation.cases import fragment


def execute(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    return fragment(
        "pass",
        facts={"environment": dict(os.environ), "cwd": os.getcwd(), "session_leader": os.getsid(0) == os.getpid()},
    )
