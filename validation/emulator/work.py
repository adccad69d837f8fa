"""Pieces of work that a host gives to streams: kernel launches and host-side operations, with what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .abi import Dim3
from .dispatch import Launch, LaunchResult


@dataclass(eq=False)
class Work:
    """Something that starts when everything in ``after`` is done.

    rank: number in the order in which the host asked. stream: integer handle. ``before``: bit r is set when the work of
    rank r is ordered before this one by streams and events. queue: whose ranks these are.
    """

    name: str
    stream: int = 0
    after: list[Work] = field(default_factory=list)
    rank: int = 0
    before: int = 0
    done: bool = False
    queue: Any = field(default=None, repr=False)

    def order_after(self, others: Iterable[Work]) -> None:
        """Add dependencies."""
        for other in others:
            self.after.append(other)
            self.before |= other.before | (1 << other.rank)

    @property
    def ready(self) -> bool:
        return all(other.done for other in self.after)


@dataclass(eq=False)
class HostWork(Work):
    """Runs in one go: a fill, a copy, an event."""

    action: Callable[[Work], None] = lambda work: None


@dataclass(eq=False)
class KernelWork(Work):
    """A launch. begin: makes it, when its turn has come. chosen: coordinates of the workgroups that run.

    keep: what must stay alive until it has run. finished: called when it is over, even by an error.
    """

    begin: Callable[[KernelWork], Launch] = field(default=None)  # type: ignore[assignment]
    chosen: Callable[[], Iterable[Dim3]] = tuple
    keep: Sequence[Any] = ()
    finished: Callable[[], None] = lambda: None
    result: LaunchResult | None = None


@dataclass(eq=False)
class Running:
    """A launch of which some workgroups have started. chunks: how many are resident."""

    work: KernelWork
    launch: Launch
    groups: Iterator[Dim3]
    waiting: list[Dim3] = field(default_factory=list)
    chunks: int = 0

    def more(self) -> bool:
        """Are there workgroups that have not started?"""
        if not self.waiting:
            self.waiting.extend(_take(self.groups, self.launch.groups_per_chunk))
        return bool(self.waiting)

    def take(self) -> list[Dim3]:
        """The workgroups of the next chunk."""
        taken, self.waiting = self.waiting, []
        return taken


def _take(source: Iterator[Dim3], count: int) -> list[Dim3]:
    return [group for _, group in zip(range(count), source, strict=False)]
