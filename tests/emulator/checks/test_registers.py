"""initcheck: undefined registers, where they matter and where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from validation.emulator import AddressSpace, Finding
from validation.emulator.checks.effects import EFFECT_FORMS
from validation.emulator.checks.registers_flow import tracking
from validation.emulator.isa import TABLE
from validation.emulator.program import parse_program

from .registers_pairs import PAIRS, SCALE, SILENT, STORE, Pair
from .snippet import launch_snippet, snippet_text

ARCHS = ("gfx942", "gfx950")
FIRST_LINE = 100


def findings(body: Sequence[str], arch: str, **options: Any) -> list[Finding]:
    """What initcheck finds in a snippet over 2 KiB of memory that is all written; each line is a source line."""
    space = AddressSpace()
    x = space.empty((64, 8), torch.float32, "x", initialised=True)
    x.fill_(0)
    lines = [text for i, line in enumerate(body, FIRST_LINE) for text in (f".loc 1 {i} 0", line)]
    checks = ("memcheck", "initcheck", *options.pop("checks", ()))
    found = launch_snippet(lines, x, space, arch=arch, checks=checks, declared_clamps=("tile.py",), **options).findings
    return [f for f in found if f.check == "initcheck"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_pair(pair: Pair, arch: str) -> None:
    assert findings(pair.good, arch, **pair.options) == []
    (found,) = findings(pair.bad, arch, **pair.options)
    assert (found.check, found.kernel, found.wave) == ("initcheck", "probe", 0)
    assert found.instruction == pair.line
    assert found.source_line == FIRST_LINE + pair.bad.index(pair.line)
    assert found.message.startswith(pair.register + " ")
    assert (found.lane, found.occurrences) == (pair.lane, pair.lanes)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str, arch: str) -> None:
    assert findings(SILENT[name], arch) == []


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_pair_with_late_completion_and_another_order_of_the_waves(pair: Pair) -> None:
    """Four waves that step apart show the same as one does, each in its own lanes."""
    options = {**pair.options, "groups": 2, "lanes": 128, "schedule": "random:5", "completion": "latest"}
    assert findings(pair.good, "gfx942", **options) == []
    assert {(f.instruction, f.message.split()[0]) for f in findings(pair.bad, "gfx942", **options)} == {
        (pair.line, pair.register)
    }


def test_workgroup_that_took_the_other_branch() -> None:
    body = [SCALE, "s_cmp_eq_u32 s2, 1", "s_cbranch_scc1 skip", "v_mov_b32_e32 v2, 0", "skip:", STORE.format("v2")]
    (found,) = findings(body, "gfx942", groups=3)
    assert (found.workgroup, found.lane, found.occurrences) == ((1, 0, 0), 0, 64)


def test_lanes_that_the_kernel_never_had_are_no_finding() -> None:
    """A wave of 40 lanes; its registers are written there only, and an MFMA reads all 64."""
    body = [SCALE, "v_mov_b32_e32 v4, 1.0", "v_mov_b32_e32 v5, 1.0",
            "v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[4:5], 0", STORE.format("v8")]  # fmt: skip
    assert findings(body, "gfx942", lanes=40) == []


def test_message_names_the_origin() -> None:
    (found,) = findings([SCALE, "v_mov_b32_e32 v3, v2", "v_mov_b32_e32 v4, v3", STORE.format("v4")], "gfx950")
    assert found.message == (
        "v4 is stored, and is undefined: `v_mov_b32_e32 v3, v2` (/src/kernels/tile.py:101) made it from v2 "
        "before anything wrote that"
    )


def test_one_finding_an_origin() -> None:
    """What was reported counts as defined: one mistake is not told again at each use of its result."""
    body = [SCALE, "global_load_dword v3, v2, s[4:5]", "global_load_dword v4, v2, s[4:5]", STORE.format("v3")]
    assert [f.source_line for f in findings(body, "gfx942")] == [FIRST_LINE + 1]


def test_what_the_kernels_entry_defines() -> None:
    body = [SCALE, STORE.format("v0"), "s_add_u32 s20, s0, s2", "s_load_dword s21, s[0:1], 0x0",
            "v_mov_b32_e32 v3, s20", STORE.format("v3")]  # fmt: skip
    assert findings(body, "gfx942") == []
    body[2] = "s_add_u32 s20, s0, s3"  # the second workgroup number, which the descriptor does not ask for
    (found,) = findings(body, "gfx942")
    assert "from s3 " in found.message


@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_is_followed_where_nothing_can_be_undefined(arch: str) -> None:
    """The analysis clears a kernel whose registers are all written first, an if and a loop included."""
    body = """
        v_mov_b32_e32 v2, 0
        s_mov_b32 s10, 3
        again:
        v_cmp_gt_u32_e32 vcc, 9, v0
        s_and_saveexec_b64 s[8:9], vcc
        s_cbranch_execz done
        v_add_u32_e32 v3, 1, v0
        v_add_u32_e32 v2, v2, v3
        done:
        s_or_b64 exec, exec, s[8:9]
        s_sub_u32 s10, s10, 1
        s_cmp_lg_u32 s10, 0
        s_cbranch_scc1 again
        v_lshlrev_b32_e32 v1, 2, v0
        global_store_dword v1, v2, s[4:5]"""
    program = parse_program(snippet_text(body.strip().splitlines(), arch))
    followed = tracking(program, program.kernel(), 32)
    assert (followed.keys, followed.effects) == (frozenset(), {})
    program = parse_program(snippet_text(body.replace("v2, 0", "v9, 0").strip().splitlines(), arch))
    assert tracking(program, program.kernel(), 32).keys == {2}


def test_every_form_has_an_effect() -> None:
    assert {entry.form for entry in TABLE.values()} == EFFECT_FORMS
