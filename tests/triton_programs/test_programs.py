"""Every Triton program on every architecture; one process an architecture runs them all."""

from __future__ import annotations

import functools
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_module

from . import PROGRAMS

pytest.importorskip("triton", reason="Triton has no wheel for this platform")

ARCHS = ("gfx942", "gfx950")


@functools.cache
def outcomes(arch: str) -> dict[str, dict[str, Any]]:
    """Results of the worker, by program."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        done = run_module("tests.triton_programs.worker", "--arch", arch, "--out", str(out))
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


EVERYWHERE = (
    "v_mfma_f64_16x16x4_f64",
    "v_mfma_f32_4x4x4_16b_f16",
    "global_atomic_pk_add_bf16",
    "global_atomic_add_f64",
    "global_atomic_cmpswap_x2",
    "ds_bpermute_b32",
    "scratch_load_dword",
    "s_swappc_b64",
)
EXPECTED = {
    "gfx942": (
        *EVERYWHERE,
        "v_mfma_f32_32x32x8_bf16",
        "v_mfma_f32_16x16x16_f16",
        "v_mfma_f32_16x16x8_xf32",
        "v_mfma_f32_32x32x4_xf32",
        "v_mfma_i32_16x16x32_i8",
        "v_mfma_i32_32x32x16_i8",
        "v_mfma_f32_16x16x32_fp8_fp8",
        "v_mfma_f32_32x32x16_fp8_bf8",
    ),
    "gfx950": (
        *EVERYWHERE,
        "v_mfma_f32_32x32x16_bf16",
        "v_mfma_f32_16x16x32_f16",
        "v_mfma_f32_32x32x2_f32",
        "v_mfma_i32_16x16x64_i8",
        "v_mfma_i32_32x32x32_i8",
        "v_mfma_scale_f32_16x16x128_f8f6f4",
        "v_mfma_scale_f32_32x32x64_f8f6f4",
        "ds_read_b64_tr_b16",
        "ds_read_b64_tr_b8",
        "global_load_lds_dwordx4",
        "v_permlane32_swap_b32",
    ),
}
"""Instructions whose execution the programs are there to prove."""


@pytest.mark.parametrize("arch", ARCHS)
def test_the_intended_instructions_ran(arch: str) -> None:
    executed = {mnemonic for result in outcomes(arch).values() for mnemonic in result["mnemonics"]}
    assert [mnemonic for mnemonic in EXPECTED[arch] if mnemonic not in executed] == []


@pytest.mark.parametrize("arch", ARCHS)
def test_a_store_beyond_the_tensor_is_found(arch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The masks of these programs matter: a length that is too large is no silent success."""
    import torch

    from .driver import Device
    from .movement import copy_kernel

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = Device(arch)
    x, out = torch.ones(1024), torch.zeros(1000)
    device.launch(copy_kernel, (1,), x=x, out=out, n=1024, LOAD="", STORE="", B=1024)
    assert len(device.findings) == 1, device.findings
    assert "past the end of arg1 (4000 bytes) [arg1[1000]]" in device.findings[0]
    assert "movement.py" in device.findings[0]
