"""Wall time of two revisions on a real GPU: best of several interleaved runs, beside a control that nothing touched.

A clock that drifts, another tenant, a warm cache: whatever happens to a machine happens to whoever runs then. So the
sides take turns, in an order that turns around every round, and the control (a call that the change cannot reach, timed
in the same rounds) shows how far equal code came out apart. A difference within that spread is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from validation.operation import JsonDict

ROUNDS = 9
BASE, HEAD, CONTROL = "base", "head", "control"
SIDES = (BASE, HEAD, CONTROL)

#: What the report says of figures that are there.
TIMED = f"best of {ROUNDS} interleaved runs of the largest case of each path, beside a control that nothing touched"

Timer = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Best seconds of each side, head over base, and how far the control's halves were apart (a factor, at least 1).

    ``times``: the seconds of each round, by side, from which :func:`derive` has the others.
    """

    times: Mapping[str, Sequence[float]]
    best: Mapping[str, float]
    ratio: float
    noise: float

    @property
    def outcome(self) -> str:
        """``faster``, ``slower`` or ``within noise``: of the head, against the base."""
        if 1 / self.noise <= self.ratio <= self.noise:
            return "within noise"
        return "slower" if self.ratio > 1 else "faster"


def interleaved(sides: Sequence[str], rounds: int) -> list[str]:
    """Whose turn it is: every round has each side once, and every second round runs backwards."""
    if rounds < 2:
        raise ValueError(f"rounds is {rounds}, must be at least 2: the control is compared with itself")
    return [side for n in range(rounds) for side in (sides if n % 2 == 0 else tuple(reversed(sides)))]


def time_sides(timers: Mapping[str, Timer], rounds: int = ROUNDS) -> Timing:
    """Run each timer ``rounds`` times in turns, after one run that does not count.

    timers: for each of :data:`SIDES`, a function that runs its call on the device once and returns the seconds it took.

    Raises:
        ValueError: a side is missing, too few rounds, or a time that is no time.
    """
    missing = [side for side in SIDES if side not in timers]
    if missing:
        raise ValueError(f"no timer for {', '.join(missing)} (needed: {', '.join(SIDES)})")
    order = interleaved(SIDES, rounds)
    for side in SIDES:
        timers[side]()
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    for side in order:
        seconds = timers[side]()
        if not seconds > 0:
            raise ValueError(f"the timer of {side} returned {seconds!r} s, must be above zero")
        times[side].append(seconds)
    return derive(times)


def derive(times: Mapping[str, Sequence[float]]) -> Timing:
    """What the seconds of each round come to."""
    best = {side: min(times[side]) for side in SIDES}
    control = times[CONTROL]
    middle = len(control) // 2  # early against late rounds shows a drift, every second one whether the order matters
    splits = ((control[:middle], control[middle:]), (control[0::2], control[1::2]))
    noise = max(max(min(a), min(b)) / min(min(a), min(b)) for a, b in splits)
    return Timing(times, best, best[HEAD] / best[BASE], noise)


def record(case: str, timing: Timing) -> JsonDict:
    """The report's record of one case."""
    return {
        "id": case,
        "times": {side: list(timing.times[side]) for side in SIDES},
        "best": dict(timing.best),
        "ratio": timing.ratio,
        "noise": timing.noise,
        "outcome": timing.outcome,
    }


def joined(cases: Sequence[JsonDict], not_timed: Sequence[JsonDict], reason: str) -> JsonDict:
    """The report's ``perf``: of ``cases`` if there are any, else for which ``reason`` there are none."""
    part = {"evidence": "runtime" if cases else "none", "reason": TIMED if cases else reason}
    return part | {"rounds": ROUNDS, "cases": list(cases), "not_timed": list(not_timed)}


def problems(part: Mapping[str, Any], level: str, green: Mapping[str, str]) -> Iterator[str]:
    """How ``perf`` contradicts itself or the report, whose device is of ``level``. green: cases that may be timed."""
    cases = part.get("cases", [])
    if bool(cases) != (part["evidence"] == "runtime") or part["evidence"] not in ("none", "runtime"):
        yield f"perf: {part['evidence']} evidence with {len(cases)} cases timed"
    if cases and level != "runtime":
        yield f"perf: cases were timed on a device that gives {level}"
    for case in cases:
        where = f"perf: case {case['id']}"
        if case["id"] not in green:
            yield f"{where}: timed, and it did not pass on both"
        if any(len(case["times"][side]) != part["rounds"] for side in SIDES):
            yield f"{where}: has not {part['rounds']} rounds of each side"
        elif record(case["id"], derive(case["times"])) != case:
            yield f"{where}: best, ratio, noise and outcome are not what its rounds give"


def lines(part: Mapping[str, Any]) -> list[str]:
    """The times in words."""
    said = [f"wall time: {part['evidence']}: {part['reason']}"]
    for case in part.get("cases", ()):
        base, head = (f"{case['best'][side] * 1e6:.1f} us" for side in (BASE, HEAD))
        noise = f"equal code came out {case['noise']:.3f} x apart"
        said.append(f"wall time: {case['id']}: {base} -> {head} ({case['ratio']:.3f} x): {case['outcome']}; {noise}")
    return [*said, *(f"wall time: not timed: {each['id']}: {each['reason']}" for each in part.get("not_timed", ()))]


def not_timed(level: str) -> JsonDict:
    """The report's ``perf`` of a run on a device of ``level``, which has no clock of its own."""
    assert level != "runtime"
    return {"evidence": "none", "reason": "no device here times anything: counts are exact, times need a GPU"}


def not_run(part: Mapping[str, Any] | None) -> list[JsonDict]:
    """What the report lists as not run: the times, if there are none."""
    if part is None or part["evidence"] != "none":
        return []
    return [{"what": "wall time against the base", "reason": part["reason"]}]
