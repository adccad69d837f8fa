"""Sets of arrival counters for the skinny K1 path, one per device, n_pad, token groups, HC and stream.

A slot only ever counts up, from zero, by HC a launch; the last of HC arrivals is the one whose old value is
HC - 1 modulo HC. So a set must never serve two HCs, nor two launches at once: launches of one stream are in
order, those of two streams are not. Nor may it serve on after a launch that broke off half way, which leaves
slots in the middle of a round: :func:`CounterCache.lease` then drops it.

Sets are allocated and zero-filled on the launch stream, so the fill is ordered before the first launch, and the
memory of an evicted set is reused only behind the launches that still need it.

A set that a CUDA or HIP graph has captured is used by every replay, whenever that is. Captured launches
therefore have sets of their own, apart from eager ones, and these stay until :func:`CounterCache.release_pinned`.
A zero-fill issued under capture runs only in replays of that one graph, so captured sets come from spares that
eager launches of the same shape have left, zero-filled for good. A capture without a warm-up finds none: each of
its launches is then preceded by a captured zero-fill, which is right but one node more. Graphs captured on one
stream share sets: their replays must be in order among themselves, as for any memory that graphs share.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hcgr import dispatch
from hcgr.plan.skinny import SLOT_ELEMENTS, counter_slots

#: Eager sets kept, least recently used dropped first; at most as many spares. A set is about 12 KB at n_pad=384.
MAX_SETS = 64
#: Captured sets kept; they cannot be dropped, so one more is refused.
MAX_PINNED = 64


class PinnedCountersError(RuntimeError):
    """Graph capture asks for one more counter set than may be pinned; nothing was launched."""


@dataclass(frozen=True)
class CounterKey:
    """What a counter set belongs to.

    Attributes:
        device: Device of its memory.
        n_pad: Row stride of packed.
        token_groups: Workgroups along the tokens.
        hc: Residual streams: arrivals a round.
        stream: Handle of the launch stream; 0 is the default stream.
        captured: Whether it serves launches that a graph captures.
    """

    device: torch.device
    n_pad: int
    token_groups: int
    hc: int
    stream: int
    captured: bool

    def for_capture(self) -> CounterKey:
        """The key of spare sets of this shape: of no stream yet."""
        return CounterKey(self.device, self.n_pad, self.token_groups, self.hc, 0, True)


def is_capturing(device: torch.device, stream: Any) -> bool:
    """Whether launches on `stream`, the current one of `device`, are being captured into a graph.

    A stand-in stream of a CPU device says so by a true attribute ``capturing``.
    """
    if device.type == "cuda":
        return bool(torch.cuda.is_current_stream_capturing())
    return bool(getattr(stream, "capturing", False))


@dataclass
class _Spare:
    """A zero-filled set that no launch has used.

    Attributes:
        counters: The set.
        filled: Event behind its zero-fill, of the launch stream; ``None`` once that is known to be done.
    """

    counters: torch.Tensor
    filled: Any

    def ready(self) -> bool:
        """Whether the fill is done; asks the device, which graph capture forbids."""
        if self.filled is not None and self.filled.query():
            self.filled = None
        return self.filled is None


@dataclass(frozen=True)
class _Pinned:
    """A captured set, and whether it must be zero-filled before each captured launch."""

    counters: torch.Tensor
    refill: bool


def _zeros(key: CounterKey) -> torch.Tensor:
    """A set for `key`, zero-filled on the current stream."""
    elements = counter_slots(key.n_pad, key.token_groups) * SLOT_ELEMENTS
    return torch.zeros(elements, dtype=torch.int32, device=key.device)


class CounterCache:
    """Counter sets by :class:`CounterKey`; all methods may be called from several threads.

    Args:
        max_sets: Most eager sets kept.
        max_pinned: Most captured sets.
    """

    def __init__(self, max_sets: int = MAX_SETS, max_pinned: int = MAX_PINNED) -> None:
        if max_sets < 1 or max_pinned < 1:
            raise ValueError(f"max_sets and max_pinned must be at least 1, got {max_sets} and {max_pinned}")
        self._max_sets, self._max_pinned = max_sets, max_pinned
        self._eager: OrderedDict[CounterKey, torch.Tensor] = OrderedDict()
        self._pinned: dict[CounterKey, _Pinned] = {}
        self._spares: OrderedDict[CounterKey, _Spare] = OrderedDict()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lease(
        self, device: torch.device, n_pad: int, token_groups: int, hc: int, stream: Any = None
    ) -> Iterator[torch.Tensor]:
        """The set for one launch, to be issued inside the block; dropped if the block raises.

        Args:
            stream: The launch stream; ``None`` is the current stream of `device`.

        Yields:
            int32, one slot of 128 bytes for each token group and column tile of the narrowest plan.

        Raises:
            PinnedCountersError: if a captured launch needs a new set and `max_pinned` are taken.
            ValueError: if hc is no power of two: slots wrap at 2**32, which a round must divide.
        """
        if hc < 1 or hc & (hc - 1):
            raise ValueError(f"hc must be a power of two, got {hc}")
        with dispatch.on_stream(stream):
            current = dispatch.current_stream(device)
            handle = 0 if current is None else int(current.cuda_stream)
            key = CounterKey(device, n_pad, token_groups, hc, handle, is_capturing(device, current))
            counters = self._captured(key) if key.captured else self._uncaptured(key, current)
            try:
                yield counters
            except BaseException:
                self._drop(key, counters)
                raise

    def _uncaptured(self, key: CounterKey, stream: Any) -> torch.Tensor:
        with self._lock:
            counters = self._eager.get(key)
            if counters is None:
                counters = self._eager[key] = _zeros(key)
                while len(self._eager) > self._max_sets:
                    self._eager.popitem(last=False)
            self._eager.move_to_end(key)
            self._keep_spare(key, stream)
            return counters

    def _keep_spare(self, key: CounterKey, stream: Any) -> None:
        """Have a spare of this shape, filled on `stream`, and note when its fill is done.

        The CPU's default stream, and stand-ins without events, fill at once.
        """
        shape = key.for_capture()
        spare = self._spares.get(shape)
        if spare is None:
            counters, record = _zeros(key), getattr(stream, "record_event", None)
            self._spares[shape] = _Spare(counters, record() if record is not None else None)
            while len(self._spares) > self._max_sets:
                self._spares.popitem(last=False)
        else:
            spare.ready()

    def _captured(self, key: CounterKey) -> torch.Tensor:
        with self._lock:
            pinned = self._pinned.get(key)
            if pinned is None:
                pinned = self._pinned[key] = self._pin(key)
        if pinned.refill:
            pinned.counters.zero_()
        return pinned.counters

    def _pin(self, key: CounterKey) -> _Pinned:
        if len(self._pinned) >= self._max_pinned:
            raise PinnedCountersError(
                f"{len(self._pinned)} counter sets are pinned by captured graphs, the most there may be; capture "
                "on fewer streams, or call release_pinned() once the graphs that use them are gone"
            )
        shape = key.for_capture()
        spare = self._spares.get(shape)
        if spare is None or spare.filled is not None:
            return _Pinned(_zeros(key), refill=True)
        del self._spares[shape]
        return _Pinned(spare.counters, refill=False)

    def _drop(self, key: CounterKey, counters: torch.Tensor) -> None:
        """Forget `counters`, unless another thread has already put a new set in its place.

        A pinned set stays: captured launches before this one use it, and a launch under capture has not run.
        """
        with self._lock:
            if self._eager.get(key) is counters:
                del self._eager[key]

    def discard(self, device: torch.device, stream: Any = None) -> int:
        """Forget the eager sets of a stream, ``None`` being the current one; returns how many.

        For a launch that fails after its call returned, as an asynchronous error does.
        """
        with dispatch.on_stream(stream):
            current = dispatch.current_stream(device)
        handle = 0 if current is None else int(current.cuda_stream)
        with self._lock:
            mine = [key for key in self._eager if (key.device, key.stream) == (device, handle)]
            for key in mine:
                del self._eager[key]
        return len(mine)

    def release_pinned(self) -> int:
        """Forget all captured sets; returns how many. Replays that use them must be over, for good."""
        with self._lock:
            released = len(self._pinned)
            self._pinned.clear()
        return released

    def held(self) -> tuple[CounterKey, ...]:
        """Keys of all sets: eager ones, least recently used first, then captured ones."""
        with self._lock:
            return (*self._eager, *self._pinned)


#: The process' counter sets.
counters = CounterCache()
