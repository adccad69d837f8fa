"""Wall time of two revisions on a real GPU: best of several interleaved runs, beside a control that nothing touched.

A clock that drifts, another tenant, a warm cache: whatever happens to a machine happens to whoever runs then. So the
sides take turns, in an order that turns around every round, and the control (a call that the change cannot reach, timed
in the same rounds) shows how far equal code came out apart. A difference within that spread is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from validation.operation import JsonDict

ROUNDS = 9
BASE, HEAD, CONTROL = "base", "head", "control"
SIDES = (BASE, HEAD, CONTROL)

Timer = Callable[[], float]


@dataclass(frozen=True)
class Timing:
    """Best seconds of each side, head over base, and how far the control's halves were apart (a factor, at least 1)."""

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
    best = {side: min(times[side]) for side in SIDES}
    control = times[CONTROL]
    middle = len(control) // 2  # early against late rounds shows a drift, every second one whether the order matters
    splits = ((control[:middle], control[middle:]), (control[0::2], control[1::2]))
    noise = max(max(min(a), min(b)) / min(min(a), min(b)) for a, b in splits)
    return Timing(best, best[HEAD] / best[BASE], noise)


def not_timed(level: str) -> JsonDict:
    """The report's ``perf`` of a run on a device of ``level``: what was not measured, and why."""
    reason = (
        "no device here times anything: counts are exact, times need a GPU"
        if level != "runtime"
        else "timing through a GPU's own driver is not connected: nobody could try it on silicon"
    )
    return {"evidence": "none", "reason": reason}
