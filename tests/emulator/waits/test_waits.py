"""Every wait hazard is caught in its unsafe form, in a reproducible way, and never in its safe form."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from .pairs import PAIRS, Pair
from .probe import ARCHS, Outcome, run_probe

MODES = ("earliest", "latest")


def _run(pair: Pair, text: tuple[str, ...], arch: str, completion: str, **more: Any) -> Outcome:
    return run_probe(text, arch, lanes=pair.lanes, groups=pair.groups, completion=completion, **pair.options, **more)


def _is_right(pair: Pair, outcome: Outcome) -> bool:
    lane = torch.arange(pair.lanes)
    return bool((outcome.out[: pair.lanes] == pair.expected(lane)).all())


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_unsafe_is_caught(pair: Pair, arch: str) -> None:
    assert pair.value or pair.finding
    late = _run(pair, pair.unsafe, arch, "latest")
    if pair.value:
        assert not _is_right(pair, late)
        assert not _is_right(pair, _run(pair, pair.unsafe, arch, "latest", checks=("memcheck",)))
    for outcome in (late, _run(pair, pair.unsafe, arch, "earliest")):
        if pair.finding:
            assert outcome.findings
            assert all(f.startswith("waits: ") for f in outcome.findings)
            assert any(pair.finding in f for f in outcome.findings), outcome.findings
            assert outcome.result.findings[0].source_file is not None


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("memory", ["flat", "weak"])
def test_safe_is_never_caught(pair: Pair, arch: str, memory: str) -> None:
    for completion in MODES:
        outcome = _run(pair, pair.safe, arch, completion, memory=memory)
        assert outcome.findings == []
        assert _is_right(pair, outcome)
