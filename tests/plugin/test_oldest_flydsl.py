"""The oldest FlyDSL that pyproject.toml allows, from the package index, in processes of its own.

It is installed into a folder that comes first on their path. Where the index cannot be reached this fails; to go
without it, set HCGR_TESTS_OFFLINE=1.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from .test_plugin import ARCHS, MOVING, ROOT

OFFLINE = "HCGR_TESTS_OFFLINE"
PROGRAMS = ("vector_add", "rms_norm", "warp_collectives")

pytestmark = pytest.mark.skipif(
    os.environ.get(OFFLINE) == "1", reason=f"{OFFLINE}=1: the oldest FlyDSL comes from the package index"
)


def oldest() -> str:
    """The lower bound of the dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (bound,) = [m[1] for d in project["dependencies"] if (m := re.match(r"flydsl>=([\d.]+)", d))]
    return bound


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that FlyDSL; the workers of one test run share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / f"flydsl-{oldest()}"
    with open(shared / "flydsl.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
            done = subprocess.run([*command, f"flydsl=={oldest()}"], capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, f"flydsl {oldest()} cannot be installed (offline? {OFFLINE}=1): {done.stderr}"
            (folder / "complete").touch()
    return folder


def python(packages: Path, arch: str, *arguments: str, path: tuple[Path, ...] = (), **env: str) -> str:
    """What a Python process prints that finds this FlyDSL first."""
    places = [packages, *path, ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, places)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "FLYDSL_COMPILE_BACKEND": "emulator",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "ARCH": arch,
        "FLYDSL_GPU_ARCH": arch,
        **env,
    }
    for name in ("COMPILE_ONLY", "FLYDSL_DEBUG_ENABLE_DEBUG_INFO"):
        environment.pop(name, None)
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_the_one_that_is_imported(packages: Path) -> None:
    out = python(packages, ARCHS[0], "-c", "import flydsl; print(flydsl.__version__, flydsl.__file__)")
    version, file = out.split()
    assert version == oldest() == "0.4.1"
    assert Path(file).is_relative_to(packages)


@pytest.mark.parametrize("arch", ARCHS)
def test_programs(packages: Path, arch: str, tmp_path: Path) -> None:
    out = tmp_path / "results.json"
    python(packages, arch, "-m", "tests.flydsl_programs.worker", "--out", str(out), *PROGRAMS)
    results: list[dict[str, Any]] = json.loads(out.read_text())
    assert [result["program"] for result in results] == list(PROGRAMS)
    for result in results:
        assert result["error"] is None, result["error"]
        assert result["launches"] > 0
        assert result["findings"] == []
        assert result["cases"]
        assert [case for case in result["cases"] if not case["passed"]] == []


@pytest.mark.parametrize("arch", ARCHS[:1])
def test_the_combine_kernel(packages: Path, arch: str, tmp_path: Path) -> None:
    out = python(packages, arch, "tests/hcgr/emulated_worker.py", arch, FLYDSL_RUNTIME_CACHE_DIR=str(tmp_path))
    pairs = json.loads(out.splitlines()[-1])
    assert len(pairs) == 6
    for exact, random in pairs:
        assert (exact["launches"], random["launches"]) == (1, 1)
        assert exact["findings"] == random["findings"] == []
        assert (exact["different"], random["over_bound"]) == (0, 0)


@pytest.mark.parametrize("arch", ARCHS[1:])
def test_a_cached_kernel_in_a_new_process(packages: Path, arch: str, tmp_path: Path) -> None:
    (tmp_path / "moving.py").write_text(MOVING)
    cache = {"FLYDSL_RUNTIME_ENABLE_CACHE": "1", "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        json.loads(
            python(packages, arch, "-m", "tests.plugin.child", "cached", path=(tmp_path,), **cache).splitlines()[-1]
        )
        for _ in range(2)
    ]
    assert [one["lowered"] for one in said] == [1, 0]
    assert said[0]["lines"] == said[1]["lines"] != []


def test_a_launcher_follows_the_environment(packages: Path) -> None:
    said = json.loads(python(packages, ARCHS[0], "-m", "tests.plugin.child", "retargeted").splitlines()[-1])
    assert said == {"ran": ["gfx942", "gfx950", "gfx942"], "results": [True] * 3}
