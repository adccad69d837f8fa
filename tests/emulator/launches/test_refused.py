"""Launches that hardware refuses are refused before anything runs, with what was given and what is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from validation.emulator import LaunchError, emulate, launch

from .texts import ARCHS, fields, text

STORE = ["v_mov_b32_e32 v2, 7", "s_waitcnt lgkmcnt(0)", "global_store_dword v1, v2, s[4:5]"]


@pytest.fixture(params=["launch", "session"])
def go(request: pytest.FixtureRequest) -> Any:
    """The two front doors: they refuse alike, and leave the memory as it was."""

    def run(words: str, asm: str, grid: Any = (1,), block: Any = (64,), workgroups: Any = None, **options: Any) -> None:
        out = torch.zeros(64, dtype=torch.int32)
        if request.param == "launch":
            with pytest.raises(LaunchError, match=words):
                launch(asm, None, grid, block, [out], workgroups=workgroups, **options)
        else:
            with emulate(workgroups=workgroups) as session, pytest.raises(LaunchError, match=words):
                session.launch(asm, None, grid, block, [out], **options)
        assert not out.any()

    return run


@pytest.mark.parametrize("arch", ARCHS)
def test_an_accepted_launch_runs(arch: str) -> None:
    out = torch.zeros(64, dtype=torch.int32)
    result = launch(text(STORE, arch), None, (1,), (64,), [out])
    assert result.findings == ()
    assert out.tolist() == [7] * 64


@pytest.mark.parametrize("arch", ARCHS)
def test_blocks(go: Any, arch: str) -> None:
    go("1088 lanes; a workgroup has at most 1024", text(STORE, arch), block=(64, 17))
    asm = text(STORE, arch, metadata={"max_flat_workgroup_size": 128})
    go("192 lanes, and the kernel is compiled for at most 128", asm, block=(192,))
    asm = text(STORE, arch, metadata={"reqd_workgroup_size": "[64, 1, 1]"})
    go(r"block \(32, 1, 1\) is not the \(64, 1, 1\)", asm, block=(32,))


SHAPES = {
    "a float": ((2.0,), "grid axis x takes a whole number, got 2.0 .float."),
    "a bool": ((True,), "grid axis x takes a whole number, got True .bool."),
    "zero": ((1, 0), r"one to three positive sizes, got \(1, 0\)"),
    "negative": ((-1,), r"one to three positive sizes, got \(-1,\)"),
    "four axes": ((1, 1, 1, 1), "one to three positive sizes"),
    "no axis": ((), "one to three positive sizes"),
    "a number": (4, "one to three positive sizes, as in"),
    "text": (("4",), "takes a whole number, got '4'"),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", SHAPES)
def test_grids_and_blocks_are_positive_whole_numbers(go: Any, arch: str, kind: str) -> None:
    shape, words = SHAPES[kind]
    go(words, text(STORE, arch), grid=shape)
    go(words.replace("grid", "block"), text(STORE, arch), block=shape)


@pytest.mark.parametrize("arch", ARCHS)
def test_grid_lanes_fit_32_bits(go: Any, arch: str) -> None:
    go(
        f"{1 << 32} lanes; a dispatch takes at most {(1 << 32) - 1}",
        text(STORE, arch),
        grid=(1, 1 << 26),
        block=(1, 64),
    )
    out = torch.zeros(64, dtype=torch.int32)
    launch(text(STORE, arch), None, ((1 << 26) - 1,), (64,), [out], workgroups=[(0, 0, 0), ((1 << 26) - 2, 0, 0)])


@pytest.mark.parametrize(("arch", "limit"), [("gfx942", 65536), ("gfx950", 163840)])
def test_lds(go: Any, arch: str, limit: int) -> None:
    asm = text(STORE, arch, descriptor=fields(group_segment_fixed_size=4096))
    words = rf"{limit + 4} bytes of LDS \(4096 static, {limit - 4092} dynamic\); a workgroup has at most {limit}"
    go(words, asm, dynamic_lds=limit - 4092)
    go("dynamic LDS of -4 bytes", asm, dynamic_lds=-4)
    go("dynamic_lds takes a whole number", asm, dynamic_lds=4.5)
    out = torch.zeros(64, dtype=torch.int32)
    assert launch(asm, None, (1,), (64,), [out], dynamic_lds=limit - 4096).findings == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_registers_and_scratch(go: Any, arch: str) -> None:
    big = text(STORE, arch, descriptor=fields(next_free_vgpr=264, accum_offset=256))
    go("puts 2 waves of 264 vector registers on a SIMD, which has 512", big, block=(320,))
    out = torch.zeros(64, dtype=torch.int32)
    assert launch(big, None, (1,), (256,), [out], checks=("memcheck",)).findings[0].check == "memcheck"
    scratch = text(STORE, arch, descriptor=fields(private_segment_fixed_size=131_060))
    go("131060 bytes of scratch a lane; there are at most 131056", scratch)


@pytest.mark.parametrize("arch", ARCHS)
def test_chosen_workgroups_lie_in_the_grid_and_are_named_once(go: Any, arch: str) -> None:
    asm = text(STORE, arch)
    go(r"workgroup \(2, 0, 0\) is none of grid \(2, 1, 1\)", asm, grid=(2,), workgroups=[(2, 0, 0)])
    go(r"workgroup \(-1, 0, 0\) is none", asm, grid=(2,), workgroups=[(-1, 0, 0)])
    go(r"workgroup \(0,\) is none", asm, grid=(2,), workgroups=[(0,)])
    go("workgroup coordinate takes a whole number, got 0.0", asm, grid=(2,), workgroups=[(0.0, 0, 0)])
    go(r"workgroup \(1, 0, 0\) is chosen twice", asm, grid=(2,), workgroups=[(1, 0, 0), (1, 0, 0)])

    def lazy() -> Iterator[tuple[int, int, int]]:
        yield from [(np.int64(1), 0, 0)]

    out = torch.zeros(64, dtype=torch.int32)
    assert launch(asm, None, (2,), (64,), [out], workgroups=lazy()).workgroups_run == 1


@pytest.mark.parametrize(("arch", "other"), [ARCHS, ARCHS[::-1]])
def test_a_session_takes_code_of_its_own_architecture(arch: str, other: str) -> None:
    out = torch.zeros(64, dtype=torch.int32)
    with emulate(arch=arch) as session, pytest.raises(LaunchError, match=f"compiled for {other}, .* emulates {arch}"):
        session.launch(text(STORE, other), None, (1,), (64,), [out])
