"""Whether a grid may be credited at all: a control of each entry point that says which values it must not survive.

A grid proves what reaches the target. For that, three things must be seen to happen:

- a case with a value that the target must refuse (``EntryPoint.invalid``) fails, in the target;
- the cover leaves the first values of the axes: a grid that only repeats them earns nothing;
- each axis is applied: a case that ends well does not any more when the axis' value is an object that cannot be used
  without an exception. An axis whose value nobody looks at would multiply cases, and prove nothing more.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NoReturn

from validation.cases import comparison
from validation.grid import Axis, Case, Grid
from validation.operation import Bench, EntryPoint, JsonDict, Operation, SkipCase, resolve_reference
from validation.stages.blame import CIRCUMSTANCES, raised_in

#: Name of the control, among the rows of an entry point's contract.
ROW = "grid_control"
WHY = "an invalid grid must make the target fail, every axis must reach it, and the cover must leave the first values"
#: Cases of the cover in which an axis is looked for: what one does not use, another may.
TRIES = 6

#: Special methods of Python's, by which a value is used.
_METHODS = (
    "abs add and bool bytes call ceil complex contains delitem divmod enter eq exit float floor floordiv format fspath "
    "ge getattr getitem gt hash index int invert iter iadd le len lshift lt matmul mod mul ne neg next or pos pow radd "
    "rand rdivmod repr reversed rfloordiv rlshift rmatmul rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor "
    "setitem str sub truediv trunc xor"
)


#: :func:`validation.stages.correctness.judge`: evidence, damaged guards, whether a launch is due; status and reason.
Judge = Callable[[JsonDict, list[str], bool], tuple[str, str]]


class UsedError(Exception):
    """The value of an axis was used."""


def _use(self: object, *arguments: object, **options: object) -> NoReturn:
    raise UsedError("the value of the axis was used")


#: An object of which every use raises :class:`UsedError`; only its identity and type can be looked at.
UNUSABLE: Any = type("Unusable", (), {f"__{name}__": _use for name in _METHODS.split()})()


class Applied(Mapping[str, Any]):
    """The parameters of a case, one of which is :data:`UNUSABLE`."""

    def __init__(self, params: Mapping[str, Any], axis: str) -> None:
        self._params, self._axis = params, axis

    def __getitem__(self, name: str) -> Any:
        return UNUSABLE if name == self._axis else self._params[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._params)

    def __len__(self) -> int:
        return len(self._params)


def checks(
    operation: Operation, entry: EntryPoint, seed: int, bench: Callable[[], Bench], judge: Judge
) -> list[JsonDict]:
    """One :func:`validation.cases.comparison` for the cover, each axis and each invalid value.

    bench: opens a bench, which is closed here. judge: that of the correctness stage.
    """
    cover = [case for case in entry.grid.pairwise(seed) if entry.launches(case.params)]
    found = [_leaves_first_values(entry.grid, cover)]
    runner, chosen = _Runner(operation, entry, seed, bench), _small(cover)
    for axis in entry.grid.axes:
        ends = (runner.without(axis.name, case) for case in chosen)
        reached = next(filter(None, ends), "")
        said = f"used: {reached}" if reached else f"axis {axis.name} could not be applied: nobody looks at its value"
        found.append(comparison(f"axis {axis.name}", "control", bool(reached), said))
    for name, value in entry.invalid.items() if chosen else ():
        end = runner.refusal({**chosen[0].params, name: value}, chosen[0].name, judge)
        said = f"{name} = {value!r} " + (f"fails: {end}" if end else "passes: the grid does not reach the target")
        found.append(comparison(f"invalid {name}", "control", bool(end), said))
    return found


def _small(cover: Sequence[Case]) -> list[Case]:
    """The first cases to try, those that cost least first: the smallest number of rows."""

    def rows(case: Case) -> int:
        m = case.params.get("m", 0)
        return m if isinstance(m, int) else 0

    return sorted(cover, key=rows)[:TRIES]


def _leaves_first_values(grid: Grid, cover: Sequence[Case]) -> JsonDict:
    first = [axis.values[0].label for axis in grid.axes]
    other = [case.name for case in cover if case.name.split(".") != first]
    fixed = [axis.name for axis in grid.axes if _one_value(axis, cover)]
    said = f"{len(other)} of {len(cover)} launching cases leave the first values"
    if not other:
        said = "the grid only repeats the first value of each axis, the target's defaults: it earns nothing"
    elif fixed:
        said += f"; axes of one value: {', '.join(fixed)}"
    return comparison("cover", "control", bool(other), said)


def _one_value(axis: Axis, cover: Sequence[Case]) -> bool:
    return len({repr(case.params[axis.name]) for case in cover}) == 1


class _Runner:
    """Runs cases the way the correctness stage does."""

    def __init__(self, operation: Operation, entry: EntryPoint, seed: int, bench: Callable[[], Bench]) -> None:
        self._packages, self._entry, self._seed, self._bench = operation.packages, entry, seed, bench
        self._ends: dict[str, bool] = {}

    def without(self, axis: str, case: Case) -> str:
        """What the call of ``case`` came to without a value that can be used on ``axis``; empty: it was made, or is not
        made with the case's own values either. What those raise is raised, and so are circumstances."""
        if not self._ends_well(case):
            return ""
        with closing(self._bench()) as bench:
            try:
                self._call(Case(case.name, Applied(case.params, axis)), bench)
            except SkipCase:
                return ""  # says nothing
            except CIRCUMSTANCES:
                raise
            except Exception as error:  # of any other kind: torch and dicts have their own words for such a value
                return _said(error)
        return ""

    def _ends_well(self, case: Case) -> bool:
        """Whether ``case`` as it is comes to its end; not if it is skipped. It is called once."""
        if case.name not in self._ends:
            self._ends[case.name] = True
            with closing(self._bench()) as bench:
                try:
                    self._call(case, bench)
                except SkipCase:
                    self._ends[case.name] = False
        return self._ends[case.name]

    def _call(self, case: Case, bench: Bench) -> None:
        driver = resolve_reference(self._entry.driver)()
        inputs = driver.prepare(case, bench, self._seed)
        with bench.session(driver.workgroups(inputs)):
            driver.run(inputs)

    def refusal(self, params: Mapping[str, Any], name: str, judge: Judge) -> str:
        """Why the case of ``params`` does not pass: what the code under test raised in the call, or what the judge
        says; empty when it passes. Any other exception is raised."""
        driver = resolve_reference(self._entry.driver)()
        with closing(self._bench()) as bench:
            inputs = driver.prepare(Case(name, params), bench, self._seed)
            with bench.session(driver.workgroups(inputs)) as session:
                try:
                    outputs = driver.run(inputs)
                except Exception as error:
                    if raised_in(error) not in self._packages and bench.blame(error) is None:
                        raise
                    return _said(error)
            evidence = {"findings": session.findings, "launches": session.launches}
            evidence |= {"comparisons": driver.check(inputs, outputs)}
            status, reason = judge(evidence, bench.guard_damage(), True)
            return reason if status == "fail" else ""


def _said(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = frames[-2 if isinstance(error, UsedError) and len(frames) > 1 else -1]
    return f"{type(error).__name__}: {error} ({where.name})"
