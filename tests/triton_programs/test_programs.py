"""Every Triton program on every architecture; one process an architecture runs them all."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from . import PROGRAMS

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

ROOT = Path(__file__).parents[2]
ARCHS = ("gfx942", "gfx950")


@functools.cache
def outcomes(arch: str) -> dict[str, dict[str, Any]]:
    """Results of the worker, by program."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        command = [sys.executable, "-m", "tests.triton_programs.worker", "--arch", arch, "--out", str(out)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
        return {result["program"]: result for result in json.loads(out.read_text())}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_program(arch: str, program: str) -> None:
    result = outcomes(arch)[program]
    assert result["error"] is None, result["error"]
    assert result["launches"] > 0
    assert result["findings"] == []
    assert result["cases"] != []
    assert [case for case in result["cases"] if not case["passed"]] == []


EXPECTED = {
    "gfx942": ("v_mfma_f32_32x32x8_bf16", "v_mfma_i32_16x16x32_i8", "v_mfma_f64_16x16x4_f64", "v_mfma_f32_16x16x8_xf32"),
    "gfx950": ("v_mfma_f32_32x32x16_bf16", "v_mfma_i32_16x16x64_i8", "v_mfma_f64_16x16x4_f64"),
}
"""Instructions whose execution the programs are there to prove."""


@pytest.mark.parametrize("arch", ARCHS)
def test_the_intended_instructions_ran(arch: str) -> None:
    executed = {mnemonic for result in outcomes(arch).values() for mnemonic in result["mnemonics"]}
    assert [mnemonic for mnemonic in EXPECTED[arch] if mnemonic not in executed] == []
