"""Hypothesis strategies over the space of an operation's grid and contract, and the check of what they draw.

A drawn case is a name, as ``hcgr-validate --case`` takes it: an axis gives its listed values and, where it has them,
the numbers between. Shapes, strides, aliasing, distributions and special values are axes like any other. Hypothesis
shrinks a failing case to the first values that still fail: the least number, else the earliest of those listed::

    @settings(deadline=None)
    @given(samples("add_rms_norm", m=range(65)))
    def test_any_case(sample):
        check(sample, "gfx942")

The error of a failing sample ends with the command that replays it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import reject
from hypothesis import strategies as st

from validation.cases import replay_command
from validation.grid import SEPARATOR, Axis, Case, Grid
from validation.in_process import EMULATOR, run_case
from validation.operation import JsonDict, load_operation

SEEDS = 1 << 16


@dataclass(frozen=True)
class Sample:
    """A case of an operation, and the seed of its inputs, as ``--case`` and ``--seed`` name them."""

    operation: str
    case: str
    seed: int = 0

    def replay(self, arch: str) -> str:
        """The command that runs it alone."""
        return replay_command(self.operation, arch, self.case, self.seed)


def cases(grid: Grid, **only: Collection[Any]) -> st.SearchStrategy[Case]:
    """Legal cases of ``grid``. ``only`` holds, by axis, the labels or numbers that may be drawn."""
    unknown = set(only) - {axis.name for axis in grid.axes}
    if unknown:
        known = ", ".join(axis.name for axis in grid.axes)
        raise ValueError(f"no axis {', '.join(sorted(unknown))} (axes: {known})")
    return _cases(grid, [_labels(axis, only.get(axis.name)) for axis in grid.axes], {})


@st.composite
def _cases(
    draw: st.DrawFn,
    grid: Grid,
    labels: Sequence[Sequence[str]],
    legal: dict[tuple[str, ...], list[str]],
) -> Case:
    """``legal`` remembers what may follow the labels drawn so far. What may not is replaced by what comes next in the
    list: so a place in it means the same label wherever that is legal, and one axis shrinks without the others."""
    chosen: dict[str, str] = {}
    for axis, candidates in zip(grid.axes, labels, strict=True):
        drawn = tuple(chosen.values())
        if drawn not in legal:
            fits = [grid.broken({**chosen, axis.name: label}) is None for label in candidates]
            following = next((label for label, fit in zip(candidates, fits, strict=True) if fit), "")
            backwards: list[str] = []
            for label, fit in zip(reversed(candidates), reversed(fits), strict=True):
                following = label if fit else following
                backwards.append(following)
            legal[drawn] = backwards[::-1]
        if not legal[drawn][0]:
            reject()
        chosen[axis.name] = draw(st.sampled_from(legal[drawn]))
    return grid.decode(SEPARATOR.join(chosen.values()))


def _labels(axis: Axis, only: Collection[Any] | None) -> list[str]:
    """Labels of an axis, preferred ones first: numbers, ascending, then the others as listed."""
    values = {value.label: value.value for value in axis.values}
    if axis.between:
        values = {axis.between.label(number): number for number in axis.between.numbers()} | values
    if only is not None:
        values = {label: value for label, value in values.items() if label in only or value in only}
        if not values:
            raise ValueError(f"axis {axis.name} has none of the values asked for: {only!r}")
    numbers = {label: value for label, value in values.items() if type(value) is int}
    ordered = sorted(numbers, key=numbers.__getitem__) + [label for label in values if label not in numbers]
    listed = [label for label in ordered if label in {value.label for value in axis.values}]
    if len(listed) == len(ordered):
        return ordered
    # The listed ones, which have a reason, come again: half of what is drawn. Hypothesis clears high bits of a place,
    # which leads from there to among all of them, and counts down, by steps of one to the least.
    places = 1 << (len(ordered) - 1).bit_length()
    ends = [ordered[-1]] * (places - len(ordered))
    return [*ordered, *ends, *(listed[place * len(listed) // places] for place in range(places))]


def samples(operation: str, entry: str = "", **only: Collection[Any]) -> st.SearchStrategy[Sample]:
    """Correctness cases of an entry point (of all where there is no name), each with a seed."""
    loaded = load_operation(operation)
    names = [entry] if entry else [one.name for one in loaded.entry_points]
    of_each = {name: cases(loaded.entry_point(name).grid, **only) for name in names}

    @st.composite
    def drawn(draw: st.DrawFn) -> Sample:
        name = draw(st.sampled_from(names))
        case = draw(of_each[name])
        return Sample(operation, f"correctness.{name}.{case.name}", draw(st.integers(0, SEEDS - 1)))

    return drawn()


def contract_samples(operation: str) -> st.SearchStrategy[Sample]:
    """Contract rows of all entry points: illegal shapes, strides, dtypes and aliasing."""
    ids = [f"contract.{e.name}.{row.name}" for e in load_operation(operation).entry_points for row in e.contract]
    return st.builds(Sample, st.just(operation), st.sampled_from(ids))


def check(sample: Sample, arch: str, device: str = EMULATOR) -> JsonDict:
    """Run ``sample`` in this process and return its record; a case that this device cannot run is drawn anew.

    Raises:
        AssertionError: unless it passes; the message holds the reason and the command that replays it.
    """
    record = run_case(sample.operation, arch, sample.case, sample.seed, device)
    if record["status"] == "skip":
        reject()
    if record["status"] != "pass":
        raise AssertionError(f"{record['status']}: {record['reason']}\nreplay: {record['replay']}")
    return record
