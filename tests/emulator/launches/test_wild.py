"""memcheck says what a bad address is: null, just outside of an allocation, or nowhere near one; or freed memory."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import pytest
import torch

from validation.emulator import AddressSpace, EmulatorError, Finding, emulate, launch, launch_raw
from validation.emulator.memory.space import GUARD_BYTES

from .texts import ARCHS, text

LOAD = ["s_waitcnt lgkmcnt(0)", "global_load_dword v2, v1, s[4:5]"]
TWO = (("p", 8, "global_buffer"), ("q", 8, "global_buffer"))


def only(body: list[str], arch: str, args: list[Any], **options: Any) -> Finding:
    names = TWO[: len(args)]
    (finding,) = launch(text(body, arch, args=names), None, (1,), (64,), args, **options).findings
    assert finding.check == "memcheck"
    return finding


@pytest.mark.parametrize("arch", ARCHS)
def test_null_pointers(arch: str) -> None:
    finding = only(LOAD, arch, [None, torch.zeros(64)])
    assert finding.message == "null pointer: global load of 4 bytes 0 bytes after address 0 (null: p)"
    assert (finding.argument, finding.index, finding.occurrences) == ("p", None, 64)
    far = only(["s_waitcnt lgkmcnt(0)", "global_store_dword v1, v1, s[4:5] offset:4000"], arch, [None])
    assert far.message == "null pointer: global store of 4 bytes 4000 bytes after address 0 (null: p)"
    both = only(LOAD, arch, [None, None])
    assert (both.message.rpartition("(")[2], both.argument) == ("null: p, q)", None)


def space_of(count: int = 64) -> tuple[AddressSpace, torch.Tensor]:
    space = AddressSpace()
    return space, space.empty((count,), torch.float32, "x", initialised=True)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("offset", "words"),
    [
        (256, "0 bytes past the end of x (256 bytes)"),
        (256 + GUARD_BYTES, f"{GUARD_BYTES} bytes past the end of x (256 bytes)"),
        (260 + GUARD_BYTES, f"no allocation near: the nearest is x (256 bytes), {GUARD_BYTES + 4} bytes away (past"),
        (-512, "512 bytes before x (256 bytes)"),
        (-4 - GUARD_BYTES, f"no allocation near: the nearest is x (256 bytes), {GUARD_BYTES + 4} bytes away (before"),
    ],
)
def test_near_and_far(arch: str, offset: int, words: str) -> None:
    space, x = space_of()
    body = [f"s_mov_b32 s8, {offset & 0xFFFFFFFF:#x}", f"s_mov_b32 s9, {-(offset < 0)}", "s_waitcnt lgkmcnt(0)"]
    body += ["s_add_u32 s4, s4, s8", "s_addc_u32 s5, s5, s9", "v_mov_b32_e32 v1, 0", "global_load_dword v2, v1, s[4:5]"]
    finding = only(body, arch, [x], space=space)
    assert words in finding.message
    assert finding.argument == "x"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("address", [0x12345678, 0xFFFFFFFF_FFFFF000, 0x00800000_00000000])
def test_addresses_that_no_memory_has(arch: str, address: int) -> None:
    space, x = space_of()
    body = [f"s_mov_b32 s8, {address & 0xFFFFFFFF:#x}", f"s_mov_b32 s9, {address >> 32:#x}"]
    body += ["v_mov_b32_e32 v1, 0", "global_load_dword v2, v1, s[8:9]"]
    finding = only(body, arch, [x], space=space)
    assert "no allocation near, and no address that memory can have" in finding.message
    assert (finding.argument, finding.index) == (None, None)


def stale(asm: str, address: int, **options: Any) -> list[Finding]:
    """Findings of a launch that is given a bare address."""
    value = ctypes.c_uint64(address)
    with emulate(**options) as session:
        launch_raw(asm, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(value)])
    return session.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("seen", [True, False])
def test_a_bare_address_whose_tensor_died(arch: str, seen: bool) -> None:
    """In a session that has launched with it before (its last launch must not keep the tensor alive), and in a new one.
    Big enough that torch gives the memory back to the system: nothing reuses it."""
    asm = text(LOAD, arch)
    x = torch.zeros(1 << 24)
    address = x.data_ptr()
    value = ctypes.c_uint64(address)
    with emulate() as session:
        if seen:
            launch_raw(asm, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(value)])
        assert session.findings == []
        del x
        gc.collect()
        launch_raw(asm, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(value)])
    (finding,) = session.findings
    if seen:
        assert finding.message == "use after free: global load of 4 bytes 0 bytes into p, released before"
        assert finding.argument == "p"
    # unseen, its words are those of whatever is near


@pytest.mark.parametrize("arch", ARCHS)
def test_memory_that_lives_again_is_no_use_after_free(arch: str) -> None:
    asm = text(LOAD, arch)
    for _ in range(4):
        x = torch.zeros(64)
        assert stale(asm, x.data_ptr()) == []
        del x


@pytest.mark.parametrize("arch", ARCHS)
def test_a_view_of_a_dead_tensor_keeps_its_memory(arch: str) -> None:
    asm = text(LOAD, arch)
    x = torch.zeros(1 << 20)
    address = x.data_ptr()
    assert stale(asm, address) == []
    view = x[64:128]
    del x
    gc.collect()
    assert stale(asm, address) == []
    assert not view.any()


@pytest.mark.parametrize("arch", ARCHS)
def test_memory_released_in_the_space(arch: str) -> None:
    space, x = space_of()
    address = x.data_ptr()
    space.release(x)
    (finding,) = stale(text(LOAD, arch), address, space=space)
    assert finding.message.startswith("use after free")


def test_no_message_holds_a_host_address() -> None:
    """The same launches over memory in other places say the same."""
    said = []
    for shift in (0, 3):
        backing = torch.zeros(64 + shift)
        x = backing[shift:]
        bodies = [LOAD, ["s_waitcnt lgkmcnt(0)", "global_load_dword v2, v1, s[4:5] offset:256"]]
        bodies += [["s_waitcnt lgkmcnt(0)", "global_atomic_add v1, v1, s[4:5] offset:2"]]
        said.append([f.message for b in bodies for f in launch(text(b), None, (1,), (64,), [x]).findings])
    assert len(said[0]) == 3
    assert not [m for m in said[0] if "0x" in m]


def test_a_second_thread_cannot_open_a_session_meanwhile() -> None:
    import threading

    outcome: list[Any] = []

    def other() -> None:
        try:
            with emulate():
                outcome.append("entered")
        except EmulatorError as error:
            outcome.append(str(error))

    def run() -> None:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()

    with emulate(), emulate():
        run()
    run()
    assert "another thread has an open emulate() block" in outcome[0]
    assert outcome[1:] == ["entered"]
