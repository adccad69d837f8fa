"""What a worker may see, what the environment stage reports, and what each device claims."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from validation import devices
from validation.cases import Task
from validation.devices import hip
from validation.devices.pool import Pool
from validation.devices.surroundings import worker_environment
from validation.stages import STAGES
from validation.stages.environment import source_state


def test_worker_environment_is_an_allow_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2")
    monkeypatch.setenv("LD_PRELOAD", "/tmp/evil.so")
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "0")
    environment = worker_environment({"ARCH": "gfx950"}, tmp_path)
    assert not {"API_TOKEN", "LD_PRELOAD", "FLYDSL_COMPILE_OPT_LEVEL"} & set(environment)
    assert environment["ARCH"] == "gfx950"
    assert environment["OMP_NUM_THREADS"] == "1"
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "FLYDSL_RUNTIME_CACHE_DIR", "TRITON_CACHE_DIR"):
        assert Path(environment[name]).is_dir()
        assert tmp_path in Path(environment[name]).parents


def test_a_worker_really_runs_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2")
    task = Task("environment.worker", "environment", {"arch": "gfx950", "what": "worker"})
    with Pool(1, "gfx950", "validation_fakes", {"ARCH": "gfx950"}) as pool:
        ((_, outcome),) = pool.run([task], STAGES | {"environment": "validation_fakes_env"})
        home = pool.home
        assert home.is_dir()
    assert not home.exists()
    assert outcome.value is not None
    facts = outcome.value["facts"]
    assert "API_TOKEN" not in facts["environment"]
    assert facts["environment"]["ARCH"] == "gfx950"
    assert facts["environment"]["HOME"].startswith(str(home))
    assert Path(facts["cwd"]).parent == home  # a directory of its own
    assert facts["session_leader"]


def git(folder: Path, *arguments: str) -> None:
    identity = {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True, env=os.environ | identity)


def test_source_state_of_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "validation"
    package.mkdir()
    (package / "a.py").write_text("1\n")
    git(tmp_path, "init", "-q")
    assert source_state(package)["reason"].startswith("not a checkout")  # no commit yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    clean = source_state(package)
    assert (clean["checkout"], clean["dirty"], len(clean["commit"])) == (True, False, 40)
    (package / "a.py").write_text("2\n")
    assert source_state(package) == clean | {"dirty": True}


def test_source_state_outside_of_a_checkout(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "validation"
    package.mkdir(parents=True)
    state = source_state(package)
    assert (state["checkout"], state["commit"], state["dirty"]) == (False, None, None)
    assert "not a checkout" in state["reason"]
    git(tmp_path, "init", "-q")  # a foreign repository around an installed package
    assert source_state(package)["reason"] == "not a checkout of this project"


def test_hip_receipts_come_from_the_trace() -> None:
    trace: dict[str, Any] = {
        "traceEvents": [
            {"cat": "gpu_memcpy", "name": "Memcpy HtoD", "args": {}},
            {"cat": "kernel", "name": "combine", "args": {"grid": [7, 2, 1], "block": [320, 1, 1]}},
        ]
    }
    (receipt,) = hip.kernel_receipts(trace, "gfx942")
    assert receipt == {
        "kernel": "combine",
        "arch": "gfx942",
        "grid": [7, 2, 1],
        "block": [320, 1, 1],
        "workgroups_run": 14,
        "instructions": None,
    }


def test_levels_are_ordered() -> None:
    assert devices.meets("runtime", "emulated")
    assert not devices.meets("compile-only", "emulated")
    assert devices.weakest(["runtime", "emulated"]) == "emulated"
    with pytest.raises(ValueError, match="must be one of: none, compile-only, emulated, runtime"):
        devices.rank("simulated")
