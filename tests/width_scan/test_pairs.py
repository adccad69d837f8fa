"""Every overflowing kernel is found on its line, and its fixed twin is clean."""

from __future__ import annotations

import pytest

from validation.width_scan import scan_source

from .pairs import PAIRS, Pair, source

_IDS = [f"{pair.language}: {pair.name}" for pair in PAIRS]


def test_there_are_enough_pairs_of_each_language() -> None:
    assert len(PAIRS) >= 40
    assert {pair.language for pair in PAIRS} == {"triton", "gluon", "flydsl"}
    assert len(set(_IDS)) == len(_IDS)


@pytest.mark.parametrize("pair", PAIRS, ids=_IDS)
def test_overflow_is_found_on_its_line(pair: Pair) -> None:
    text = source(pair, pair.bad)
    marked = [number for number, line in enumerate(text.split("\n"), 1) if line.endswith("#!")]
    assert len(marked) == 1
    found = scan_source(text).errors
    assert [finding.line for finding in found] == marked
    assert found[0].result > found[0].maximum
    assert found[0].witness


@pytest.mark.parametrize("pair", PAIRS, ids=_IDS)
def test_fixed_twin_is_clean(pair: Pair) -> None:
    result = scan_source(source(pair, pair.good))
    assert result.findings == []
    assert [file.status for file in result.files] == ["scanned"]
