"""A tensor argument that is a view of a larger storage: its own extent is what a launch may touch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from validation.emulator import AddressSpace, Finding, emulate, launch

from .texts import ARCHS, text

LOAD = ["s_waitcnt lgkmcnt(0)", "global_load_dword v2, v1, s[4:5]"]
#: The same from the first argument, and the first dword of the second.
BOTH = [
    "s_load_dwordx2 s[8:9], s[0:1], 0x8",
    *LOAD,
    "v_mov_b32_e32 v3, 0",
    "global_load_dword v4, v3, s[8:9]",
]
PAIR = (("p", 8, "global_buffer"), ("q", 8, "global_buffer"))


@pytest.fixture(params=["launch", "session", "space"])
def go(request: pytest.FixtureRequest) -> Any:
    """Findings of a launch, through each front door, over torch's memory and over a space's."""

    def run(body: list[str], arch: str, args: list[Any], **options: Any) -> tuple[Finding, ...]:
        asm = text(body, arch, args=PAIR[: len(args)])
        if request.param == "session":
            with emulate(**options) as session:
                session.launch(asm, None, (1,), (64,), args)
            return tuple(session.findings)
        space = AddressSpace()
        if request.param == "space":
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            space.register(tensors[0]._base if tensors[0]._base is not None else tensors[0], "whole")
        return launch(asm, None, (1,), (64,), args, space=space, **options).findings

    return run


@pytest.mark.parametrize("arch", ARCHS)
def test_an_overrun_into_the_views_own_storage(go: Any, arch: str) -> None:
    whole = torch.zeros(256)
    (finding,) = go(LOAD, arch, [whole[16:64]])
    assert "0 bytes past the end of the view p (192 bytes), inside of its storage" in finding.message
    assert (finding.argument, finding.index, finding.lane, finding.occurrences) == ("p", (48,), 48, 16)
    assert go(LOAD, arch, [whole[16:64]], bound_views=False) == ()
    assert go(LOAD, arch, [whole[16:80]]) == ()
    assert go(LOAD, arch, [whole]) == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_an_underrun(go: Any, arch: str) -> None:
    whole = torch.zeros(256)
    back = ["s_waitcnt lgkmcnt(0)", "global_load_dword v2, v1, s[4:5] offset:-8"]
    (finding,) = go(back, arch, [whole[16:128]])
    assert "8 bytes before the view p (448 bytes)" in finding.message
    assert finding.occurrences == 2


@pytest.mark.parametrize("arch", ARCHS)
def test_what_another_argument_covers_is_no_overrun(go: Any, arch: str) -> None:
    whole = torch.zeros(256)
    assert go(BOTH, arch, [whole[16:48], whole[48:128]]) == ()
    assert go(BOTH, arch, [whole[16:48], whole[40:128]]) == ()
    (finding,) = go(BOTH, arch, [whole[16:48], whole[52:128]])
    assert (finding.argument, finding.occurrences) == ("p", 4)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_bare_address_leaves_the_storage_open(go: Any, arch: str) -> None:
    """It says nothing of how far it reaches, also when it is the address of a view."""
    whole = torch.zeros(256)
    assert go(BOTH, arch, [whole[16:48], whole.data_ptr()]) == ()
    assert go(BOTH, arch, [whole[16:48], whole[16:].data_ptr()]) == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_strided_and_expanded_views(go: Any, arch: str) -> None:
    """From the first element to the last, gaps included."""
    whole = torch.zeros(32, 16)
    rows = whole[:, :2]
    assert go(LOAD, arch, [rows]) == ()
    assert go(LOAD, arch, [whole[4:8, 3]])[0].occurrences == 64 - (3 * 16 + 1)
    assert go(LOAD, arch, [whole[0].expand(64, 16)[:, ::2]])[0].occurrences == 64 - 15
    assert go(LOAD, arch, [whole.t()]) == ()


@pytest.mark.parametrize("arch", ARCHS)
def test_empty_views_and_neighbours_in_one_storage(go: Any, arch: str) -> None:
    whole = torch.zeros(256)
    body = ["s_mov_b64 exec, 0xf", *LOAD]
    assert go(body, arch, [whole[100:104]]) == ()
    (finding,) = go([*body, "s_load_dwordx2 s[8:9], s[0:1], 0x8", *BOTH[-3:]], arch, [whole[0:4], whole[0:0]])
    assert (finding.message.split(":")[0], finding.argument) == ("null pointer", "q")
