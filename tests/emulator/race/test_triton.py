"""No false alarm on what Triton compiles: locks, compare-and-swap loops, alternating halves of a workgroup."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from validation.emulator import launch

triton = pytest.importorskip("triton", reason="Triton has no wheel for this platform")
tl = importlib.import_module("triton.language")
driver = importlib.import_module("tests.triton_programs.driver")

ARCHS = ("gfx942", "gfx950")
CHECKED = ("racecheck", "synccheck", "waits")
#: completion, memory, schedule, checks
MODES = (
    ("earliest", "flat", "lockstep", CHECKED),
    ("earliest", "flat", "random:1", CHECKED),
    ("latest", "weak", "random:2", ("waits", "synccheck")),
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("triton")


@pytest.fixture(params=MODES, ids=lambda mode: "-".join(mode[:3]))
def notes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, cache: Path) -> list[str]:
    """Launches run in one of the modes; what they only note."""
    completion, memory, schedule, checks = request.param
    found: list[str] = []

    def in_mode(*args: Any, **options: Any) -> Any:
        options.update(completion=completion, memory=memory, schedule=schedule, checks=checks)
        result = launch(*args, **options)
        found.extend(str(note) for note in result.notes)
        return result

    monkeypatch.setattr(driver, "launch", in_mode)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(cache))
    return found


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("program", ["locks", "atomics"])
def test_programs_are_silent(program: str, arch: str, notes: list[str]) -> None:
    device = driver.Device(arch)
    module = importlib.import_module(f"tests.triton_programs.{program}")
    cases = module.run(torch.Generator().manual_seed(20250521), device)
    assert [case.name for case in cases if not case.passed] == []
    assert device.findings == []


@triton.jit
def _matmul(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    left, right = a + rows[:, None] * k + inner[None, :], b + inner[:, None] * n + columns[None, :]
    for _ in range(0, k, K):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += K
        right += K * n
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


def test_halves_that_take_turns_are_noted(notes: list[str]) -> None:
    """Eight waves, of which Triton puts four one barrier ahead (``amdg.cond_barrier``)."""
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-3, 4, (256, 256), generator=generator).half() for _ in range(2))
    c = torch.zeros(256, 256, dtype=torch.float16)
    device = driver.Device("gfx942")
    options = {"num_warps": 8, "num_stages": 2}
    device.launch(_matmul, (1,), a=a, b=b, c=c, n=256, k=256, M=256, N=256, K=64, options=options)
    assert (c == (a.float() @ b.float()).half()).all()
    assert device.findings == []
    assert any("meet at different barriers" in note for note in notes)
