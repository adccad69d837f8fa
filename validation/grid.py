"""Shape grids: axes whose values each have a role, covered pairwise or in full, from a seed.

A grid's case is named by its axis labels (``m65.hc4.hs2560``), so a name alone rebuilds the case: replaying needs
neither the seed nor the cover that produced it. Pairwise cover is greedy: as long as some pair of values of two
axes has not met in any case, a new case starts from that pair and fills its other axes with whatever adds most
uncovered pairs; ties are broken by the seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from validation.near import hint

SEPARATOR = "."

#: Why a value is on an axis. ``production`` values need no further reason.
ROLES = ("production", "tile boundary", "odd", "tiny", "zero", "beyond 2^31", "beyond 2^32", "long", "variation")

T = TypeVar("T")
Pair = tuple[tuple[str, str], tuple[str, str]]


class GridError(ValueError):
    """A grid that contradicts itself, or a case name that does not belong to it."""


@dataclass(frozen=True)
class AxisValue:
    """One point on an axis. A callable ``value`` is given the case's other parameters and returns the number."""

    label: str
    value: Any
    role: str
    why: str = ""

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise GridError(f"role of {self.label!r} is {self.role!r}, must be one of: {', '.join(ROLES)}")
        if not self.label or set(self.label) - set("abcdefghijklmnopqrstuvwxyz0123456789_"):
            raise GridError(f"label {self.label!r} must be lower-case letters, digits and '_'")


@dataclass(frozen=True)
class Between:
    """Whole numbers from ``low`` to ``high`` in steps of ``step``, which an axis takes beside its listed values.

    No cover holds them. They have names (``prefix`` and the number), for whatever searches the space: see
    :mod:`validation.strategies`.
    """

    prefix: str
    low: int
    high: int
    step: int = 1

    def numbers(self) -> range:
        """All of them."""
        return range(self.low, self.high + 1, self.step)

    def label(self, number: int) -> str:
        """The name of ``number``."""
        return f"{self.prefix}{number}"

    def value(self, label: str) -> AxisValue | None:
        """The number called ``label``; ``None`` if it is not one of these."""
        digits = label.removeprefix(self.prefix)
        if not digits.isdecimal() or self.label(int(digits)) != label or int(digits) not in self.numbers():
            return None
        return AxisValue(label, int(digits), "variation", "between the listed values")


@dataclass(frozen=True)
class Axis:
    """A parameter of the operation and the values it takes: those listed, and on request whole numbers ``between``.

    Values ``apart`` are met in anchors alone, which every cover holds: no other value is paired with them.
    """

    name: str
    values: tuple[AxisValue, ...]
    between: Between | None = None
    apart: tuple[AxisValue, ...] = ()


def axis(name: str, between: Between | None = None, /, **values: tuple[Any, ...]) -> Axis:
    """The axis of ``label=(value, role, why)``; the role is ``variation`` and the reason empty where left out."""
    made = (AxisValue(label, value, *(rest or ("variation",))) for label, (value, *rest) in values.items())
    return Axis(name, tuple(made), between)


@dataclass(frozen=True)
class Rule:
    """Values of two axes that may not meet: ``allows(a, b)`` is asked with their raw values.

    An ``anchored`` rule bounds what a cover costs and no more: a cover meets such values in its anchors alone, while
    they are legal in the full product and in a case asked for by name.
    """

    axes: tuple[str, str]
    allows: Callable[[Any, Any], bool]
    why: str
    anchored: bool = False


@dataclass(frozen=True)
class Anchor:
    """A combination that must be in every cover, whatever the pairs; axes left out take their first value."""

    labels: Mapping[str, str]
    why: str


def named(axes: Sequence[Axis], cases: Mapping[str, str]) -> tuple[Anchor, ...]:
    """Anchors of whole cases, each by its name and why it stays whatever the cover."""
    names = [axis.name for axis in axes]
    return tuple(Anchor(dict(zip(names, case.split(SEPARATOR), strict=True)), why) for case, why in cases.items())


@dataclass(frozen=True)
class Case:
    """One point of a grid. ``name`` is its identity, ``params`` the resolved values, ``why`` the reasons."""

    name: str
    params: Mapping[str, Any]
    why: tuple[str, ...] = ()


class _MoreNeeded(Exception):
    """A function asks for axes that are not among those gone through."""

    def __init__(self, axes: tuple[str, ...]) -> None:
        super().__init__(*axes)
        self.axes = axes


class Some(Mapping[str, Any]):
    """The parameters of some axes; asking for another one, or for all of them, raises :class:`_MoreNeeded`."""

    def __init__(self, params: Mapping[str, Any], axes: tuple[str, ...]) -> None:
        self._params, self._axes = params, axes

    def __getitem__(self, name: str) -> Any:
        if name in self._axes and name not in self._params:
            raise _MoreNeeded((name,))
        return self._params[name]

    def __iter__(self) -> Iterator[str]:
        if len(self._params) < len(self._axes):
            raise _MoreNeeded(self._axes)
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._axes)


@dataclass(frozen=True)
class Grid:
    """Axes, the pairs of values that cannot meet, and the combinations that must be there."""

    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...] = ()
    anchors: tuple[Anchor, ...] = ()
    _axes: dict[str, Axis] = field(init=False, repr=False, compare=False, default_factory=dict)
    _values: dict[str, dict[str, AxisValue]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for axis in self.axes:
            self._axes[axis.name] = axis
            self._values[axis.name] = {v.label: v for v in (*axis.values, *axis.apart)}
        labels = [v.label for axis in self.axes for v in (*axis.values, *axis.apart)]
        twice = {label for label in labels if labels.count(label) > 1}
        if twice:
            raise GridError(f"labels must be unique in a grid, these are not: {', '.join(sorted(twice))}")
        for axis in self.axes:
            for value in (*axis.values, *axis.apart):
                number = axis.between and axis.between.value(value.label)
                if number and number.value != value.value:
                    raise GridError(f"label {value.label!r} is {value.value!r} and also the number {number.value}")
        for rule in self.rules:
            missing = set(rule.axes) - set(self._values)
            if missing:
                raise GridError(f"a rule names unknown axes: {', '.join(sorted(missing))}")
        for anchor in self.anchors:
            self._complete(anchor)

    # -- names -------------------------------------------------------------------------------------------------

    def decode(self, name: str) -> Case:
        """The case called ``name``; ``GridError`` says which part does not belong to this grid."""
        parts = name.split(SEPARATOR)
        if len(parts) != len(self.axes):
            raise GridError(f"{name!r} has {len(parts)} parts, this grid has {len(self.axes)} axes")
        labels: dict[str, str] = {}
        for axis, label in zip(self.axes, parts, strict=True):
            self.value(axis, label)
            labels[axis.name] = label
        broken = self.broken(labels)
        if broken:
            raise GridError(f"{name!r} is not a legal case: {broken.why}")
        return self._case(labels, ())

    def value(self, axis: Axis, label: str) -> AxisValue:
        """The value of ``axis`` called ``label``; ``GridError`` names those there are."""
        found = self._values[axis.name].get(label) or (axis.between and axis.between.value(label))
        if not found:
            known = ", ".join(self._values[axis.name])
            if axis.between:
                b = axis.between
                known += f", and {b.label(b.low)} to {b.label(b.high)} in steps of {b.step}"
            near = hint(label, self._values[axis.name])
            raise GridError(f"{label!r} is not a value of axis {axis.name!r} (values: {known}){near}")
        return found

    def broken(self, labels: Mapping[str, str], *, cover: bool = False) -> Rule | None:
        """The first rule that ``labels`` (axis to label, not necessarily of all axes) break.

        ``cover``: also by the rules that hold for what a cover makes beside its anchors.
        """
        for rule in self.rules:
            if (cover or not rule.anchored) and not self._allows(rule, labels):
                return rule
        return None

    # -- covers ------------------------------------------------------------------------------------------------

    def full(self) -> list[Case]:
        """Every legal combination of listed values, and the anchors that hold values apart."""
        cases = [self._case(labels, ()) for labels in self._legal()]
        return [*cases, *(self._case(self._complete(a), (f"anchor: {a.why}",)) for a in self.anchors if self._apart(a))]

    def pairwise(self, seed: int) -> list[Case]:
        """The anchors, then cases until each legal pair of values has met at least once.

        Anchors with a value apart come last: what they pair is not counted, so that they change no other case.
        """
        rng = random.Random(seed)
        missing = dict.fromkeys(self._legal_pairs())
        chosen: dict[str, Case] = {}
        for anchor in self.anchors:
            if not self._apart(anchor):
                self._take(self._complete(anchor), f"anchor: {anchor.why}", missing, chosen)
        while missing:
            first = next(iter(missing))
            labels = self._grow(dict(first), missing, rng)
            if labels is None:  # each pair is legal by itself, but the rules leave no third value beside it
                del missing[first]
                continue
            self._take(labels, "", missing, chosen)
        for anchor in self.anchors:
            if self._apart(anchor):
                self._take(self._complete(anchor), f"anchor: {anchor.why}", missing, chosen)
        return list(chosen.values())

    def results(self, function: Callable[[Mapping[str, Any]], T]) -> set[T]:
        """What ``function`` of a case's parameters can give in :meth:`full`, anchors aside, and perhaps some more: only
        the axes that it asks for are gone through, and what rules say of the others is left out."""
        axes: set[str] = set()
        while True:
            try:
                points = (self._params(labels, axes) for labels in self._legal(axes))
                return {function(Some(params, tuple(self._axes))) for params in points}
            except _MoreNeeded as needed:
                axes.update(needed.axes)

    def uncovered(self, cases: Sequence[Case]) -> list[Pair]:
        """Pairs of values that a cover must hold and that meet in none of ``cases``."""
        missing = dict.fromkeys(self._legal_pairs())
        for case in cases:
            for pair in self._pairs(self.labels(case.name)):
                missing.pop(pair, None)
        return list(missing)

    # -- the works ---------------------------------------------------------------------------------------------

    def labels(self, name: str) -> dict[str, str]:
        """Axis to label of the case called ``name``."""
        return dict(zip((a.name for a in self.axes), name.split(SEPARATOR), strict=True))

    def _complete(self, anchor: Anchor) -> dict[str, str]:
        labels = {axis.name: axis.values[0].label for axis in self.axes} | dict(anchor.labels)
        for name, label in labels.items():
            if label not in self._values.get(name, {}):
                raise GridError(f"anchor {anchor.why!r}: axis {name!r} has no value {label!r}")
        broken = self.broken(labels)
        if broken:
            raise GridError(f"anchor {anchor.why!r} breaks a rule: {broken.why}")
        return labels

    def _apart(self, anchor: Anchor) -> bool:
        """Whether an anchor holds a value apart."""
        return any(value.label == anchor.labels.get(axis.name) for axis in self.axes for value in axis.apart)

    def _legal(self, some: Collection[str] | None = None) -> Iterator[dict[str, str]]:
        """Every legal combination (of ``some`` axes), the last axis fastest.

        It grows axis by axis, so that a pair that breaks a rule is met once, not once for each combination behind it.
        """
        axes = [axis for axis in self.axes if some is None or axis.name in some]
        names = [axis.name for axis in axes]
        found: list[tuple[str, ...]] = [()]
        for depth, axis in enumerate(axes):
            here = [rule for rule in self.rules if not rule.anchored and axis.name in rule.axes]
            tables: dict[str, list[tuple[int, set[str]]]] = {value.label: [] for value in axis.values}
            for rule in here:
                other = rule.axes[rule.axes[0] == axis.name]
                if other not in names[:depth]:
                    continue
                for label, allowed in tables.items():
                    fitting = (v.label for v in self._axes[other].values)
                    allowed.append(
                        (names.index(other), {f for f in fitting if self._allows(rule, {axis.name: label, other: f})})
                    )
            found = [
                (*chosen, label)
                for chosen in found
                for label, allowed in tables.items()
                if all(chosen[position] in fitting for position, fitting in allowed)
            ]
        return (dict(zip(names, chosen, strict=True)) for chosen in found)

    def _allows(self, rule: Rule, labels: Mapping[str, str]) -> bool:
        """Does the rule hold, or does it need an axis that ``labels`` lack?"""
        if not all(name in labels for name in rule.axes):
            return True
        left, right = (self.value(self._axes[name], labels[name]).value for name in rule.axes)
        return bool(rule.allows(left, right))

    def _legal_pairs(self) -> Iterator[Pair]:
        for a, b in itertools.combinations(self.axes, 2):
            for left, right in itertools.product(a.values, b.values):
                if not self.broken({a.name: left.label, b.name: right.label}, cover=True):
                    yield (a.name, left.label), (b.name, right.label)

    def _pairs(self, labels: Mapping[str, str]) -> Iterator[Pair]:
        for a, b in itertools.combinations(self.axes, 2):
            if a.name in labels and b.name in labels:
                yield (a.name, labels[a.name]), (b.name, labels[b.name])

    def _grow(self, labels: dict[str, str], missing: Mapping[Pair, None], rng: random.Random) -> dict[str, str] | None:
        """Fill the axes that ``labels`` leaves open, best gain first; ``None`` when no filling obeys the rules."""
        open_axes = [axis for axis in self.axes if axis.name not in labels]
        if not open_axes:
            return labels
        axis = rng.choice(open_axes)
        options: list[tuple[int, float, dict[str, str]]] = []
        for value in axis.values:
            trial = labels | {axis.name: value.label}
            if self.broken(trial, cover=True) is None:
                gain = sum(p in missing for p in self._pairs(trial))
                options.append((-gain, rng.random(), trial))
        for _, _, trial in sorted(options, key=lambda option: option[:2]):
            grown = self._grow(trial, missing, rng)
            if grown is not None:
                return grown
        return None

    def _take(self, labels: dict[str, str], reason: str, missing: dict[Pair, None], chosen: dict[str, Case]) -> None:
        new = [pair for pair in self._pairs(labels) if pair in missing]
        for pair in new:
            del missing[pair]
        reasons = [reason] if reason else []
        if new:
            (_, left), (_, right) = new[0]
            more = f" and {len(new) - 1} more" if len(new) > 1 else ""
            reasons.append(f"first to pair {left} with {right}{more}")
        case = self._case(labels, tuple(reasons))
        chosen.setdefault(case.name, case)

    def _case(self, labels: Mapping[str, str], why: tuple[str, ...]) -> Case:
        values = [self.value(axis, labels[axis.name]) for axis in self.axes]
        params = self._params(labels)
        roles = tuple(
            f"{v.label}: {v.role}" + (f", {v.why}" if v.why else "") for v in values if v.role != "production"
        )
        return Case(SEPARATOR.join(v.label for v in values), params, why + roles)

    def _params(self, labels: Mapping[str, str], some: Collection[str] | None = None) -> dict[str, Any]:
        values = {name: self.value(self._axes[name], label).value for name, label in labels.items()}
        params = {name: value for name, value in values.items() if not callable(value)}
        for name, value in values.items():
            if callable(value):
                params[name] = value(params if some is None else Some(params, tuple(self._axes)))
        return params
