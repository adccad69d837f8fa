"""What the host waits for is ordered; waits behind writes are switch points; captured memory is the graph's own."""

from __future__ import annotations

import pytest
import torch

from tests.emulator.race.probe import Buffers, text
from validation.emulator import AddressSpace, CachingAllocator, Event, Stream, capture, emulate, launch, replay
from validation.emulator.launch import parse_cached
from validation.emulator.schedule import parse_schedule, visible_points

ARCHS = ("gfx942", "gfx950")


@pytest.mark.parametrize("waited", ["device", "first", "second", "nothing"])
def test_a_host_that_has_waited_orders_what_follows(waited: str) -> None:
    """Two streams, one buffer: no race behind a wait for the stream that wrote it, and for no other."""
    buffer = torch.zeros(64, dtype=torch.int32)
    with emulate(concurrent=True, checks=("racecheck",)) as session:
        first, second = Stream(), Stream()
        first.fill_(buffer, 1)
        second.fill_(torch.zeros(64, dtype=torch.int32), 1)
        if waited == "device":
            session.synchronize()
        elif waited != "nothing":
            {"first": first, "second": second}[waited].synchronize()
        second.fill_(buffer, 2)
    assert (session.findings == []) == (waited in ("device", "first"))


@pytest.mark.parametrize("how", ["event.synchronize", "event.query", "stream.query"])
@pytest.mark.parametrize("waited", ["first", "second"])
@pytest.mark.parametrize("concurrent", [True, False])
def test_a_host_that_has_heard_of_the_end_orders_what_follows(how: str, waited: str, concurrent: bool) -> None:
    """By an event or a query, of the stream that wrote the buffer or of another one; a third stream goes on."""
    buffer = torch.zeros(64, dtype=torch.int32)
    with emulate(concurrent=concurrent, checks=("racecheck",)) as session:
        streams = {"first": Stream(), "second": Stream()}
        streams["first"].fill_(buffer, 1)
        streams["second"].fill_(torch.zeros(64, dtype=torch.int32), 1)
        event = streams[waited].record_event()
        if how == "event.synchronize":
            event.synchronize()
        else:
            asked = event if how == "event.query" else streams[waited]
            assert asked.query() != concurrent, "nothing has run yet"
            while not asked.query():
                pass
        Stream().fill_(buffer, 2)
    assert (session.findings == []) == (waited == "first")


def test_events_of_an_earlier_session_order_nothing() -> None:
    buffer, event = torch.zeros(64, dtype=torch.int32), Event()
    with emulate(concurrent=True):
        stream = Stream()
        for _ in range(8):
            stream.fill_(buffer, 1)
        stream.record_event(event)
    for wait in (event.synchronize, event.query, lambda: stream.wait_event(event)):
        with emulate(concurrent=True, checks=("racecheck",)) as session:
            Stream().fill_(buffer, 1)
            wait()
            stream.fill_(buffer, 2)
        assert session.findings != []


def test_a_stream_says_whether_it_is_captured() -> None:
    with emulate(concurrent=True):
        stream, other = Stream(), Stream()
        assert not stream.capturing
        with capture(stream):
            assert (stream.capturing, other.capturing) == (True, False)
        assert not stream.capturing


def test_memory_of_a_capture_is_not_handed_out_again_nor_poisoned_by_replays() -> None:
    space = AddressSpace()
    with emulate(concurrent=True, space=space):
        allocator, stream = CachingAllocator(space), Stream()
        with capture(stream) as graph:
            kept = allocator.empty((16,), torch.int32, stream)
            place = allocator.empty((16,), torch.int32, stream).data_ptr()
        assert kept.eq(-1).all(), "poisoned at once"
        later = [allocator.empty((16,), torch.int32, stream) for _ in range(3)]
        assert place not in [tensor.data_ptr() for tensor in later]
        kept.fill_(5)
        replay(graph, stream)
    assert kept.eq(5).all()
    assert graph.nodes == []


#: Of two workgroups the last to arrive adds what both have published: 5 + 5. ``{wait}`` stands before the arrival.
MEETING = """
    v_mov_b32_e32 v7, 5
    v_mov_b32_e32 v8, 1
    s_lshl_b32 s14, s10, 8
    v_mov_b32_e32 v5, s14
    global_store_dword v5, v7, s[4:5] sc1
    {wait}
    global_atomic_add v9, v4, v8, s[6:7] sc0
    s_waitcnt vmcnt(0)
    v_readfirstlane_b32 s15, v9
    s_and_b32 s15, s15, 127
    s_cmp_lt_u32 s15, 64
    s_cbranch_scc1 done
    global_load_dword v10, v4, s[4:5] sc1
    global_load_dword v11, v4, s[4:5] offset:256 sc1
    s_waitcnt vmcnt(0)
    v_add_u32_e32 v10, v10, v11
    global_store_dword v4, v10, s[8:9]
    done:"""
WAIT, NO_WAIT = "s_waitcnt vmcnt(0)", "s_nop 0"


def test_waits_behind_writes_are_switch_points() -> None:
    program = parse_cached(text(MEETING.format(wait=NO_WAIT), "gfx942"))
    waits = visible_points(program, waits=True)
    assert [program.instructions[i - 1].mnemonic for i in waits] == ["global_atomic_add"]
    assert set(waits) < set(visible_points(program))


def test_held_is_a_name_that_replays() -> None:
    for name in ("held", "held:3", "held:2+3,9"):
        assert str(parse_schedule(name)) == name
    with pytest.raises(ValueError, match="held"):
        parse_schedule("held:x")


@pytest.mark.parametrize("arch", ARCHS)
def test_a_wave_held_at_its_wait_has_arrived_and_not_published(arch: str) -> None:
    """The second workgroup overtakes the first between its arrival and the wait that makes its store seen."""
    sums = {}
    for wait in (WAIT, NO_WAIT):
        for schedule in ("in-order", "held:1", "held:2"):
            buffers = Buffers.make()
            launch(
                text(MEETING.format(wait=wait), arch), "probe", (2,), (64,), buffers.args, space=buffers.space,
                schedule=schedule, completion="latest", memory="weak",
            )  # fmt: skip
            sums[wait, schedule] = int(buffers.out[0])
    assert sums.pop((NO_WAIT, "held:1")) == 5
    assert set(sums.values()) == {10}, sums
