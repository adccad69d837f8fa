"""Strategies over an operation's space: what they draw, what they shrink to, and that the command replays it."""

from __future__ import annotations

import os
import re
import shlex
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from tests.validation.strategy_fakes import GRID
from validation import cli
from validation.grid import GridError
from validation.strategies import Sample, cases, check, contract_samples, samples

FAKE = "strategy_fakes:OPERATION"
DEVICE = "validation_fakes"
#: A few seconds of emulation; the same cases every time where nobody can look at a new one.
BOUNDED = settings(
    max_examples=5,
    deadline=None,
    derandomize="CI" in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@given(cases(GRID))
@settings(max_examples=100, deadline=None, database=None)
def test_every_drawn_case_is_legal_and_its_name_rebuilds_it(case: Any) -> None:
    assert GRID.decode(case.name) == case
    assert (case.params["m"], case.params["values"]) != (1, "wide")


@given(cases(GRID, m=range(3), padding=["strided"], values=["special", "wide"]))
@settings(max_examples=50, deadline=None, database=None)
def test_axes_can_be_bounded_by_label_and_by_value(case: Any) -> None:
    assert case.params["m"] < 3
    assert (case.params["padding"], case.params["values"] in ("special", "wide")) == (8, True)


@pytest.mark.parametrize("seed", [0, 24, 33])
@pytest.mark.parametrize("name", ["m2g.dense.normal", "m301.dense.normal", "m1.strided.special"])
def test_values_listed_and_between_are_reached(name: str, seed: int) -> None:
    wanted = GRID.decode(name).params
    found = find(
        cases(GRID),
        lambda case: (
            {k: v for k, v in case.params.items() if k != "m"} == {k: v for k, v in wanted.items() if k != "m"}
            and (case.params["m"] >= wanted["m"])
        ),
        settings=settings(max_examples=1000, deadline=None, database=None),
        random=Random(seed),
    )
    assert found.params == wanted


def test_what_cannot_be_drawn_is_said() -> None:
    with pytest.raises(ValueError, match=r"no axis rows \(axes: m, padding, values\)"):
        cases(GRID, rows=[1])
    with pytest.raises(ValueError, match="axis m has none of the values asked for"):
        cases(GRID, m=[5000])
    with pytest.raises(GridError, match=r"m5000.*m0 to m512 in steps of 1"):
        GRID.decode("m5000.dense.normal")
    with pytest.raises(GridError, match="m007"):
        GRID.decode("m007.dense.normal")


def test_a_failure_shrinks_to_the_smallest_case_and_its_command_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    @given(samples(FAKE))
    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    def any_case(sample: Sample) -> None:
        check(sample, "gfx942", DEVICE)

    with pytest.raises(AssertionError) as failed:
        any_case()
    command = re.search(r"^replay: hcgr-validate (.+)$", str(failed.value), re.MULTILINE)
    assert command is not None, failed.value
    arguments = shlex.split(command[1])
    assert arguments[arguments.index("--case") + 1] == "correctness.fake.m37.strided.special"
    assert arguments[arguments.index("--seed") + 1] == "0"
    assert cli.main([*arguments, "--jobs", "1"], (DEVICE,)) == 1
    assert "error/bound 3 with 37 rows" in capsys.readouterr().out


@given(sample=samples("hcgr", "combine", m=range(6), hs=[2560]), arch=st.sampled_from(["gfx942", "gfx950"]))
@BOUNDED
def test_any_small_combine(sample: Sample, arch: str) -> None:
    check(sample, arch)


@given(sample=contract_samples("hcgr"), arch=st.sampled_from(["gfx942", "gfx950"]))
@BOUNDED
def test_any_illegal_call(sample: Sample, arch: str) -> None:
    assert check(sample, arch)["launches"] == []
