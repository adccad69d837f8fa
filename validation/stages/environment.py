"""What the run stands on: interpreter, packages, CPU, source revision, and the worker that will do the work."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from validation import devices
from validation.cases import Task, fragment
from validation.operation import JsonDict
from validation.stages import Request, find_planned

NAME = "environment"
TITLE = "Environment"
NEEDS = "none"
LEVEL = "none"
SETTLES = False

PACKAGES = ("hcgr", "torch", "flydsl", "numpy", "triton", "jsonschema", "rich")
REQUIRED_PACKAGES = ("torch", "flydsl", "numpy")

_WHY = {
    "packages": "versions of everything that took part",
    "source": "the revision that the report speaks of",
    "worker": "a worker process starts with a scrubbed environment and sees its device",
}


def plan(request: Request) -> list[Task]:
    """One task for each row of the table above."""
    payload = {"arch": request.arch, "packages": list(request.operation.packages)}
    return [Task(f"{NAME}.{name}", NAME, payload | {"what": name}, (why,)) for name, why in _WHY.items()]


def find(request: Request, case_id: str) -> Task:
    """The task of that name."""
    return find_planned(plan(request), case_id)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Gather one group of facts."""
    return _GATHER[payload["what"]](payload, context)


def versions() -> dict[str, str | None]:
    """Installed versions of :data:`PACKAGES`; ``None`` for a package that is not installed."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def cpu_model() -> str:
    """The CPU as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux: the platform's own answer below is all there is
    return platform.processor() or platform.machine()


def source_state(folder: Path) -> JsonDict:
    """Commit and dirtiness of the checkout that holds ``folder``, or the reason why there is none."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=30)
        if done.returncode:
            raise OSError((done.stderr.strip() or f"git exited with {done.returncode}").splitlines()[0])
        return done.stdout.strip()

    try:
        top = Path(git("rev-parse", "--show-toplevel"))
        if not (top / "validation").is_dir() or folder.resolve() != (top / "validation").resolve():
            return {"checkout": False, "commit": None, "dirty": None, "reason": "not a checkout of this project"}
        status = git("status", "--porcelain")
        commit = git("rev-parse", "--verify", "HEAD")
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"checkout": False, "commit": None, "dirty": None, "reason": f"not a checkout: {error}"}
    return {"checkout": True, "commit": commit, "dirty": bool(status), "reason": ""}


def describe() -> JsonDict:
    """Interpreter, platform, CPU and package versions: the report's ``environment``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": cores,
        "packages": versions(),
    }


def _packages(payload: JsonDict, context: Any) -> JsonDict:
    facts = describe()
    missing = [name for name in REQUIRED_PACKAGES if facts["packages"][name] is None]
    if missing:
        return fragment("error", f"not installed: {', '.join(missing)}", facts=facts)
    return fragment("pass", facts=facts)


def _source(payload: JsonDict, context: Any) -> JsonDict:
    state = source_state(Path(devices.__file__).parents[1])
    return fragment("pass", facts=state)


def _worker(payload: JsonDict, context: Any) -> JsonDict:
    claim = devices.device(context.device).claim(payload["arch"])
    facts = {
        "device": claim.device,
        "level": claim.level,
        "reason": claim.reason,
        "variables": len(os.environ),
        "executable": Path(sys.executable).name,
    }
    if not claim.available:
        return fragment("error", f"device {claim.device} is gone inside the worker: {claim.reason}", facts=facts)
    return fragment("pass", facts=facts)


_GATHER = {"packages": _packages, "source": _source, "worker": _worker}
