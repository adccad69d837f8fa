"""Each unsafe variant is found, each safe one stays silent under every schedule, on both architectures."""

from __future__ import annotations

import pytest

from validation.emulator.checks import race_displaced

from .count_pairs import COUNT_PAIRS
from .displaced_pairs import COUNT_IN_PASSING, DISPLACED_PAIRS
from .flag_pairs import FLAG_PAIRS
from .flat_pairs import FLAT_PAIRS
from .idiom_pairs import IDIOM_PAIRS
from .pair import Pair
from .pairs import PAIRS as OTHER_PAIRS
from .probe import SCHEDULES, run

ARCHS = ("gfx942", "gfx950")
PAIRS = OTHER_PAIRS + FLAG_PAIRS + FLAT_PAIRS + COUNT_PAIRS + IDIOM_PAIRS + DISPLACED_PAIRS


def _id(pair: Pair) -> str:
    return pair.name.replace(" ", "-")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("pair", PAIRS, ids=_id)
def test_unsafe_is_found(pair: Pair, arch: str) -> None:
    result = run(pair.unsafe, arch, groups=pair.groups, lanes=pair.lanes)
    found = [str(f) for f in result.findings if f.check == pair.check]
    assert any(pair.says in text for text in found), result.findings or result.notes


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("pair", DISPLACED_PAIRS, ids=_id)
def test_who_comes_last_hides_nothing(pair: Pair, schedule: str, arch: str) -> None:
    result = run(pair.unsafe, arch, groups=pair.groups, lanes=pair.lanes, schedule=schedule)
    assert any(pair.says in str(f) for f in result.findings), result.findings or result.notes


@pytest.mark.parametrize("arch", ARCHS)
def test_a_log_without_room_is_noted(arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not kept may have raced: silence would say too much."""
    pair = DISPLACED_PAIRS[0]
    assert [n for n in run(pair.unsafe, arch, groups=pair.groups, lanes=pair.lanes).notes if "unseen" in str(n)] == []
    monkeypatch.setattr(race_displaced, "MOST", 0)
    notes = run(pair.unsafe, arch, groups=pair.groups, lanes=pair.lanes).notes
    assert [n.check for n in notes if "races with them go unseen" in str(n)] == ["racecheck"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_count_may_be_read_in_passing(schedule: str, arch: str) -> None:
    assert run(COUNT_IN_PASSING, arch, groups=3, lanes=64, schedule=schedule).findings == ()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("pair", PAIRS, ids=_id)
def test_safe_is_silent(pair: Pair, schedule: str, arch: str) -> None:
    result = run(
        pair.safe, arch, groups=pair.groups, lanes=pair.lanes, schedule=schedule,
        checks=("memcheck", "racecheck", "synccheck", "waits"),
    )  # fmt: skip
    assert result.findings == ()


def test_enough_pairs() -> None:
    assert len(PAIRS) >= 40
    assert len({pair.name for pair in PAIRS}) == len(PAIRS)
    assert all(pair.safe != pair.unsafe for pair in PAIRS)
