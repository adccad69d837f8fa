"""Grids: cover, determinism, names that rebuild their case, rules, reasons; and HCGR's own grid."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.grid import ROLES, Anchor, Axis, AxisValue, Grid, GridError, Rule
from validation.grid import axis as labelled
from validation.operation import load_operation
from validation.ops.hcgr import COMBINE, COMBINE_GRID, MOST_ALLOCATED_ROWS


def axis(name: str, count: int) -> Axis:
    return Axis(name, tuple(AxisValue(f"{name}{i}", i, "variation", f"value {i}") for i in range(count)))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=5), st.integers(0, 2**32))
def test_pairwise_covers_every_legal_pair(counts: list[int], seed: int) -> None:
    axes = tuple(axis("abcde"[i], n) for i, n in enumerate(counts))
    rule = Rule(("a", "b"), lambda a, b: (a, b) != (0, 0), "never both zero")
    grid = Grid(axes, (rule,))
    cases = grid.pairwise(seed)
    for left, right in itertools.combinations(axes, 2):
        for a, b in itertools.product(left.values, right.values):
            met, possible = (
                any(c.params[left.name] == a.value and c.params[right.name] == b.value for c in some)
                for some in (cases, grid.full())
            )
            assert met is possible
    assert len({c.name for c in cases}) == len(cases) <= len(grid.full())


def test_a_seed_gives_one_cover_and_seeds_differ() -> None:
    first, again, other = (COMBINE_GRID.pairwise(seed) for seed in (1, 1, 2))
    assert first == again
    assert {c.name for c in first} != {c.name for c in other}


def test_values_apart_are_in_anchors_alone_and_change_no_other_case() -> None:
    axes = axis("a", 4), axis("b", 3), axis("c", 3)
    far = AxisValue("far", 99, "beyond 2^31", "too large to pair")
    plain = Grid(axes, anchors=(Anchor({"a": "a1"}, "first"),))
    apart = Anchor({"a": "far", "c": "c2"}, "far")
    grid = Grid((Axis("a", axes[0].values, apart=(far,)), *axes[1:]), anchors=(apart, *plain.anchors))
    for seed in range(5):
        *before, last = grid.pairwise(seed)
        assert before == plain.pairwise(seed)
        assert (last.name, last.params["a"]) == ("far.b0.c2", 99)
        assert grid.uncovered(before) == []
    assert [c.name for c in grid.full()] == [*(c.name for c in plain.full()), "far.b0.c2"]
    assert grid.decode("far.b1.c0").params["a"] == 99


def test_an_anchored_rule_bounds_the_cover_and_no_more() -> None:
    axes = axis("a", 4), axis("b", 3), axis("c", 3)
    dear = Rule(("a", "b"), lambda a, b: a < 3 or b == 0, "dear", anchored=True)
    grid = Grid(axes, (dear,), (Anchor({"a": "a3", "b": "b1"}, "the dear one that is wanted"),))
    for seed in range(5):
        cases = grid.pairwise(seed)
        assert [c.name for c in cases if c.params["a"] == 3 and c.params["b"]] == ["a3.b1.c0"]
        assert grid.uncovered(cases) == []
    assert len(grid.full()) == 4 * 3 * 3
    assert grid.decode("a3.b2.c1").params == {"a": 3, "b": 2, "c": 1}


def test_a_name_rebuilds_its_case_without_the_cover() -> None:
    for case in COMBINE_GRID.pairwise(7):
        assert COMBINE_GRID.decode(case.name).params == case.params


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m1", "has 1 parts, this grid has 9 axes"),
        ("m1025.hc4.hs2560.inj336.rowsdense.wbf16.wshared.normal.outgiven", "'m1025' is not a value of axis 'm'"),
        ("m8192.hc4.hs2560.inj336.rowsdense.wbf16.wshared.normal.outalloc", "not a legal case: the op can allocate"),
    ],
)
def test_a_foreign_name_is_refused_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(GridError) as caught:
        COMBINE_GRID.decode(name)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: AxisValue("a", 1, "unheard of"), "role of 'a'"),
        (lambda: AxisValue("a-b", 1, "odd"), "lower-case letters"),
        (lambda: Grid((axis("a", 1), Axis("b", (AxisValue("a0", 0, "odd"),)))), "labels must be unique"),
        (lambda: Grid((axis("a", 2),), (Rule(("a", "z"), lambda a, z: True, ""),)), "unknown axes: z"),
        (lambda: Grid((axis("a", 2),), (), (Anchor({"a": "a9"}, "why"),)), "axis 'a' has no value 'a9'"),
    ],
)
def test_a_grid_that_contradicts_itself_is_refused(build, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(GridError) as caught:
        build()
    assert words in str(caught.value)


def test_dependent_values_see_the_other_parameters() -> None:
    name = "m2g.hc8.hs40960.injdense.rowsdense.wbf16.wshared.normal.outgiven"
    params = COMBINE_GRID.decode(name).params
    assert params["injection_stride"] == 8
    row_bytes = 8 * 40960 * 2
    assert (params["m"] - 3) * row_bytes >= 2**31 > (params["m"] - 4) * row_bytes


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_combine_grid_is_large_enough_and_has_every_role(seed: int) -> None:
    cases = COMBINE_GRID.pairwise(seed)
    assert COMBINE_GRID.uncovered(cases) == []
    assert sum(COMBINE.launches(case.params) for case in cases) >= 60
    assert all(case.why for case in cases)
    roles = {v.role for a in COMBINE_GRID.axes for v in a.values}
    assert roles == set(ROLES)
    for limit, element in ((2**31, 2), (2**32, 2), (2**31, 1), (2**32, 1)):
        assert any(c.params["m"] * c.params["hc"] * c.params["hs"] * element > limit for c in cases)
    assert all(c.params["out"] or c.params["m"] <= MOST_ALLOCATED_ROWS for c in cases)


def test_results_of_a_function_need_only_the_axes_that_it_asks_for() -> None:
    """Every variant of the full product is among them, and a rule between two of its axes is kept."""
    grid = Grid(
        (
            labelled("a", a1=(1,), a2=(2,), a3=(3,)),
            labelled("b", b1=(10,), b2=(20,)),
            labelled("c", c1=(lambda params: 100 * params["a"],), c2=(7,)),
            # 9^12 points: not to be gone through
            *(labelled(f"x{i}", **{f"x{i}_{j}": (j,) for j in range(9)}) for i in range(12)),
        ),
        (Rule(("a", "b"), lambda a, b: a * 10 != b, "no tens"), Rule(("x1", "a"), lambda x, a: x != a, "apart")),
    )
    assert grid.results(lambda p: p["b"]) == {10, 20}
    assert grid.results(lambda p: (p["a"], p["b"])) == {(1, 20), (2, 10), (3, 10), (3, 20)}
    assert grid.results(lambda p: p["c"]) == {100, 200, 300, 7}
    assert grid.results(lambda p: p.get("a", 0) if p["b"] == 10 else -1) == {2, 3, -1}
    assert grid.results(lambda p: "none") == {"none"}
    with pytest.raises(KeyError, match="nothing"):
        grid.results(lambda p: p["nothing"])


@pytest.mark.parametrize("name", ["mix", "combine", "k2"])
def test_the_full_product_is_what_the_rules_leave(name: str) -> None:
    grid = load_operation("hcgr").entry_point(name).grid
    product = itertools.product(*([v.label for v in axis.values] for axis in grid.axes))
    names = [axis.name for axis in grid.axes]
    due = [".".join(labels) for labels in product if not grid.broken(dict(zip(names, labels, strict=True)))]
    full = [case.name for case in grid.full()]
    assert full[: len(due)] == due
    assert all("anchor: " in case.why[0] for case in grid.full()[len(due) :])
    variant = load_operation("hcgr").entry_point(name).variant
    assert grid.results(variant) >= {variant(case.params) for case in grid.full()}
