"""Counter sets: keys, zero-fill, bounds, graph capture, failure and threads, with stand-in streams."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from hcgr import dispatch
from hcgr.counters import MAX_PINNED, MAX_SETS, CounterCache, PinnedCountersError
from hcgr.plan.skinny import SLOT_BYTES, SLOT_ELEMENTS, SkinnyPlan, counter_slots

CPU = torch.device("cpu")


@dataclass
class Stream:
    """A stand-in for a stream of the CPU device."""

    cuda_stream: int
    capturing: bool = False
    device: torch.device = CPU


def take(cache: CounterCache, n_pad: int = 336, groups: int = 1, hc: int = 4, stream: Any = None) -> torch.Tensor:
    """The set that one launch gets."""
    with cache.lease(CPU, n_pad, groups, hc, stream) as counters:
        return counters


def test_one_key_gives_one_set_that_is_zero_once() -> None:
    cache = CounterCache()
    first = take(cache)
    assert first.dtype == torch.int32
    assert first.is_contiguous()
    assert not first.any()
    first += 4
    again = take(cache)
    assert again is first
    assert bool((again == 4).all()), "a slot only counts up: an eager set is never filled again"


@pytest.mark.parametrize(
    "other",
    [
        {"n_pad": 384},
        {"groups": 2},
        {"hc": 8},
        {"stream": Stream(7)},
        {"stream": Stream(0, capturing=True)},
    ],
    ids=str,
)
def test_every_key_field_keeps_sets_apart(other: dict[str, Any]) -> None:
    cache = CounterCache()
    first = take(cache)
    first += 1
    second = take(cache, **other)
    assert second is not first
    assert second.data_ptr() != first.data_ptr()
    assert not second.any()
    assert len(cache.held()) == 2


def test_device_is_part_of_the_key() -> None:
    cache = CounterCache()
    take(cache)
    with cache.lease(torch.device("meta"), 336, 1, 4) as other:
        assert other.device.type == "meta"
    assert {key.device.type for key in cache.held()} == {"cpu", "meta"}


@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize(("n_pad", "live"), [(8, 6), (336, 324), (384, 328), (384, 384)])
@pytest.mark.parametrize("columns", [4, 8])
@pytest.mark.parametrize("tokens", [1, 8, 20])
def test_a_set_has_a_whole_line_for_every_counter_of_every_plan(
    hc: int, n_pad: int, live: int, columns: int, tokens: int
) -> None:
    plan = SkinnyPlan(hc, 2560, n_pad, live, min(tokens, 8), columns)
    counters = take(CounterCache(), n_pad, plan.token_groups(tokens), hc)
    assert SLOT_BYTES == 128 == SLOT_ELEMENTS * counters.element_size()
    assert plan.counter_slots(tokens) <= counter_slots(n_pad, plan.token_groups(tokens))
    assert counters.numel() == counter_slots(n_pad, plan.token_groups(tokens)) * SLOT_ELEMENTS


def test_stream_defaults_to_the_current_one() -> None:
    cache = CounterCache()
    side = Stream(9)
    with dispatch.on_stream(side):
        inside = take(cache)
    assert take(cache, stream=side) is inside
    assert take(cache) is not inside
    assert [key.stream for key in cache.held()] == [9, 0]


def test_set_is_allocated_and_filled_on_the_launch_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    zeros: Callable[..., torch.Tensor] = torch.zeros

    def spy(*arguments: Any, **options: Any) -> torch.Tensor:
        seen.append(dispatch.current_stream(CPU))
        return zeros(*arguments, **options)

    monkeypatch.setattr(torch, "zeros", spy)
    side = Stream(5)
    with CounterCache().lease(CPU, 336, 1, 4, side):
        assert dispatch.current_stream(CPU) is side
    assert seen == [side, side], "the set and the spare for a later capture"
    assert dispatch.current_stream(CPU) is None


def test_least_recently_used_eager_set_goes_first() -> None:
    cache = CounterCache(max_sets=2)
    first = take(cache, hc=2)
    take(cache, hc=4)
    assert take(cache, hc=2) is first
    take(cache, hc=8)
    assert [key.hc for key in cache.held()] == [2, 8]
    assert take(cache, hc=2) is first


def test_default_cache_is_bounded() -> None:
    cache = CounterCache()
    for handle in range(MAX_SETS + 10):
        take(cache, stream=Stream(handle))
    assert len(cache.held()) == MAX_SETS
    for n_pad in range(8, 8 * MAX_SETS + 100, 8):
        take(cache, n_pad=n_pad)
    assert len(cache._spares) == MAX_SETS
    for handle in range(MAX_SETS + 10):
        take(cache, stream=Stream(handle))
    assert cache.held()[-1].stream == MAX_SETS + 9


def test_eviction_leaves_the_set_of_a_launch_under_way_alone() -> None:
    cache = CounterCache(max_sets=1)
    with cache.lease(CPU, 336, 1, 4) as held:
        held += 3
        take(cache, hc=8)
        assert bool((held == 3).all())
    fresh = take(cache)
    assert fresh is not held
    assert not fresh.any()


def test_captured_sets_survive_any_number_of_eager_ones() -> None:
    cache = CounterCache(max_sets=2)
    graph = Stream(1, capturing=True)
    captured = take(cache, stream=graph)
    for hc in (2, 4, 8):
        for handle in range(4):
            take(cache, hc=hc, stream=Stream(handle))
    assert take(cache, stream=graph) is captured
    assert sum(key.captured for key in cache.held()) == 1
    assert len(cache.held()) == 3


def test_eager_launch_never_gets_a_captured_set() -> None:
    """Its fill is a node of the graph: outside a replay nothing has run it."""
    cache = CounterCache()
    stream = Stream(1, capturing=True)
    captured = take(cache, stream=stream)
    stream.capturing = False
    assert take(cache, stream=stream) is not captured
    stream.capturing = True
    assert take(cache, stream=stream) is captured


def test_without_warm_up_every_captured_launch_fills_its_set_first() -> None:
    cache = CounterCache()
    graph = Stream(1, capturing=True)
    captured = take(cache, stream=graph)
    captured += 3
    with cache.lease(CPU, 336, 1, 4, graph) as again:
        assert again is captured
        assert not again.any()


def test_after_a_warm_up_captured_launches_only_count_up() -> None:
    cache = CounterCache()
    warm = take(cache)
    warm += 4
    graph = Stream(1, capturing=True)
    captured = take(cache, stream=graph)
    assert captured is not warm
    assert not captured.any()
    captured += 4
    assert take(cache, stream=graph) is captured
    assert bool((captured == 4).all())


def test_a_spare_fits_its_shape_and_serves_one_stream() -> None:
    cache = CounterCache()
    take(cache)
    other_shape = take(cache, hc=8, stream=Stream(1, capturing=True))
    first = take(cache, stream=Stream(1, capturing=True))
    second = take(cache, stream=Stream(2, capturing=True))
    assert len({other_shape.data_ptr(), first.data_ptr(), second.data_ptr()}) == 3
    for counters, kept in ((other_shape, False), (first, True), (second, False)):
        counters += 1
        assert bool(counters.any())
        handle, hc = (2, 4) if counters is second else (1, 8 if counters is other_shape else 4)
        again = take(cache, hc=hc, stream=Stream(handle, capturing=True))
        assert again is counters
        assert bool((again == 1).all()) is kept


def test_eager_launches_replace_a_spare_that_was_taken() -> None:
    cache = CounterCache()
    take(cache)
    take(cache, stream=Stream(1, capturing=True))
    take(cache)
    second = take(cache, stream=Stream(2, capturing=True))
    second += 1
    assert bool((take(cache, stream=Stream(2, capturing=True)) == 1).all())


@dataclass
class Event:
    """A stand-in for the event behind a spare's fill."""

    done: bool

    def query(self) -> bool:
        return self.done


def test_a_spare_counts_only_once_its_fill_is_known_to_be_done() -> None:
    """Capture must not ask the device, so what no eager call has seen done is not used."""
    event = Event(done=False)
    cache = CounterCache()
    take(cache)
    (spare,) = cache._spares.values()
    spare.filled = event
    early = take(cache, stream=Stream(1, capturing=True))
    assert early is not spare.counters
    event.done = True
    unseen = take(cache, stream=Stream(2, capturing=True))
    assert unseen is not spare.counters
    take(cache)
    assert take(cache, stream=Stream(3, capturing=True)) is spare.counters


def test_a_stream_with_events_tells_when_a_spare_is_filled() -> None:
    """As torch's streams do on a GPU, and the emulator's."""
    event = Event(done=False)

    @dataclass
    class Recording(Stream):
        def record_event(self) -> Event:
            return event

    cache, stream = CounterCache(), Recording(3)
    take(cache, stream=stream)
    (spare,) = cache._spares.values()
    assert spare.filled is event
    assert take(cache, stream=Stream(1, capturing=True)) is not spare.counters
    event.done = True
    take(cache, stream=stream)
    assert take(cache, stream=Stream(2, capturing=True)) is spare.counters


def test_pinned_sets_are_bounded_and_can_be_released() -> None:
    cache = CounterCache()
    for handle in range(MAX_PINNED):
        take(cache, stream=Stream(handle, capturing=True))
    before = cache.held()
    with pytest.raises(PinnedCountersError, match=f"{MAX_PINNED} counter sets.*release_pinned"):
        take(cache, stream=Stream(MAX_PINNED, capturing=True))
    assert cache.held() == before
    take(cache, stream=Stream(0, capturing=True))
    take(cache, stream=Stream(MAX_PINNED))
    assert cache.release_pinned() == MAX_PINNED
    assert [key.captured for key in cache.held()] == [False]
    take(cache, stream=Stream(MAX_PINNED, capturing=True))


class LaunchError(Exception):
    """What a stand-in launch raises half way."""


def fail(cache: CounterCache, stream: Any = None, then: Callable[[], Any] = lambda: None) -> torch.Tensor:
    """A launch that counts three arrivals of a round of four, lets `then` happen, and breaks off."""
    taken: list[torch.Tensor] = []

    def launch() -> None:
        with cache.lease(CPU, 336, 1, 4, stream) as counters:
            taken.append(counters)
            counters[0] += 3
            then()
            raise LaunchError

    with pytest.raises(LaunchError):
        launch()
    return taken[0]


def test_failed_launch_discards_its_set_only() -> None:
    cache = CounterCache()
    other = take(cache, hc=8)
    broken = fail(cache)
    assert [key.hc for key in cache.held()] == [8]
    fresh = take(cache)
    assert fresh is not broken
    assert not fresh.any()
    assert take(cache, hc=8) is other


def test_failed_launch_does_not_discard_the_set_that_replaced_its_own() -> None:
    cache = CounterCache(max_sets=1)
    replacements: list[torch.Tensor] = []

    def replace() -> None:
        take(cache, hc=8)
        replacements.append(take(cache))

    broken = fail(cache, then=replace)
    assert take(cache) is replacements[0]
    assert replacements[0] is not broken


def test_failed_capture_keeps_the_pinned_set() -> None:
    cache = CounterCache()
    graph = Stream(1, capturing=True)
    captured = take(cache, stream=graph)
    assert fail(cache, graph) is captured
    assert take(cache, stream=graph) is captured


def test_discard_forgets_the_eager_sets_of_one_stream() -> None:
    cache = CounterCache()
    side = Stream(3)
    old = take(cache, stream=side)
    take(cache, hc=8, stream=side)
    kept, pinned = take(cache), take(cache, stream=Stream(3, capturing=True))
    assert cache.discard(CPU, side) == 2
    assert cache.discard(CPU, side) == 0
    assert take(cache) is kept
    assert take(cache, stream=Stream(3, capturing=True)) is pinned
    assert take(cache, stream=side) is not old


@pytest.mark.parametrize("hc", [0, -4, 3, 6])
def test_round_must_divide_the_wrap(hc: int) -> None:
    cache = CounterCache()
    with pytest.raises(ValueError, match=f"power of two, got {hc}"):
        take(cache, hc=hc)
    assert not cache.held()


@pytest.mark.parametrize("bounds", [(0, 1), (1, 0)])
def test_bounds_must_leave_room_for_one(bounds: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CounterCache(*bounds)


def test_threads_share_one_set_per_key() -> None:
    cache = CounterCache()
    start = threading.Barrier(8)
    taken: list[tuple[int, int]] = []

    def work(number: int) -> None:
        start.wait()
        for turn in range(200):
            handle = (number + turn) % 4
            taken.append((handle, id(take(cache, stream=Stream(handle)))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1600
    assert len(set(taken)) == 4


def test_threads_do_not_break_the_bounds() -> None:
    cache = CounterCache(max_sets=3, max_pinned=3)
    refused: list[int] = []

    def work(number: int) -> None:
        for turn in range(100):
            handle = number * 100 + turn
            take(cache, stream=Stream(handle))
            try:
                take(cache, stream=Stream(handle, capturing=True))
            except PinnedCountersError:
                refused.append(handle)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 397
    captured = [key.captured for key in cache.held()]
    assert captured == [False] * 3 + [True] * 3
