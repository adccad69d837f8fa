"""Shards: a run split over machines by case, so that what each one did can be joined again (:mod:`.merge`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from validation.operation import JsonDict

T = TypeVar("T")
LARGEST = 1024


class ShardError(ValueError):
    """A shard that cannot be; the message says what one looks like."""


@dataclass(frozen=True)
class Shard:
    """Part ``index`` (from 1) of ``count``: every ``count``-th case of each stage, in the order of the plan.

    The order depends on operation, arch, seed, cover and level, never on workers, so equal runs split equally.
    """

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count <= LARGEST:
            raise ShardError(f"shard {self.index}/{self.count}: must be i/n with 1 <= i <= n <= {LARGEST}")

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard written as ``i/n``."""
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal()):
            raise ShardError(f"shard {text!r} must look like 2/4: i/n with 1 <= i <= n <= {LARGEST}")
        return cls(int(index), int(count))

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Shard | None:
        """The shard that a report says it is; ``None`` for a report on everything."""
        return cls(**report["shard"]) if report["shard"] else None

    def as_json(self) -> JsonDict:
        """The form the report holds."""
        return {"index": self.index, "count": self.count}

    def take(self, planned: Sequence[T]) -> list[T]:
        """This shard's part of ``planned``."""
        return list(planned[self.index - 1 :: self.count])

    def share(self, planned: int) -> int:
        """How many of ``planned`` cases :meth:`take` gives."""
        return len(range(self.index - 1, planned, self.count))


def interleave(parts: Sequence[Sequence[T]]) -> list[T]:
    """The sequence of which ``parts`` are the shards, in order: undoes :meth:`Shard.take`."""
    longest = max((len(part) for part in parts), default=0)
    return [part[row] for row in range(longest) for part in parts if row < len(part)]


def chosen_cases(selection: Mapping[str, Any]) -> tuple[str, ...]:
    """The cases that a run was asked for by name; none where it was not."""
    case = selection["case"]
    return (case,) if isinstance(case, str) else tuple(case or ())


def left_out(selection: Mapping[str, Any], stages: Sequence[str], shard: Shard | None) -> tuple[str, ...]:
    """What a run of ``selection`` and ``shard`` does not look at by choice, in words. ``stages``: all there are."""
    if cases := chosen_cases(selection):
        return (f"every case but {', '.join(cases)}",)
    missing = [f"stage {name}" for name in stages if name not in selection["stages"]]
    return (*missing, f"every case outside shard {shard}") if shard else tuple(missing)
