"""The HTML page and its figures: whole, self-contained, honest about failures."""

from __future__ import annotations

import html.parser
import re
from collections import Counter

import pytest
from report_support import COMMIT, Report, case, hostile, run

from validation.report import bars, heat
from validation.report.merge import merge
from validation.report.page import html as page
from validation.report.shards import Shard


@pytest.fixture(scope="module")
def mixed() -> Report:
    return run("MIXED")


# -- HTML --------------------------------------------------------------------------------------------------------------

_VOID = {"meta", "br", "link", "img", "input", "hr"}
_MAY_STAY_OPEN = {"li", "td", "th", "tr", "p", "dt", "dd"}


class Page(html.parser.HTMLParser):
    """Tags, identifiers, links and text; complains about a tag that closes another."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in _VOID and not (self.get_starttag_text() or "").endswith("/>"):  # the latter only in SVG
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1] != tag:
            assert self.open[-1] in _MAY_STAY_OPEN, f"</{tag}> closes <{self.open[-1]}>"
            self.open.pop()
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.mark.parametrize("name", ["MIXED", "FINE", "hostile"])
def test_page_is_whole_needs_no_network_and_no_script(name: str) -> None:
    text = page(hostile() if name == "hostile" else run(name))
    found = Page(text)
    assert found.open == []
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(found.tags)
    assert not [value for name, value in found.attributes if name in ("src", "srcset", "action") or name[:2] == "on"]
    assert not re.search(r"https?:|@import|url\(", text)
    assert "default-src 'none'" in text
    assert len(found.ids) == len(set(found.ids))
    assert {link.removeprefix("#") for link in found.links} <= set(found.ids)
    assert all(link.startswith("#") for link in found.links)
    for needed in ('lang="en"', 'name="viewport"', "prefers-color-scheme: dark", "<main>", "<title>"):
        assert needed in text


def test_page_starts_with_verdict_and_evidence_and_says_what_was_not_run(mixed: Report) -> None:
    text = Page(page(mixed)).text
    order = ["FAIL (emulated, partial)", COMMIT, "device fake", "What was not run", "stage contract", "Cases that did"]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_page_shows_every_case_that_is_red_with_its_replay(mixed: Report) -> None:
    text = Page(page(mixed)).text
    red = [c for s in mixed["stages"] for c in s["cases"] if c["status"] in ("fail", "error")]
    assert len(red) == 5
    for record in red:
        assert record["replay"] in text
        assert record["reason"] in text
    assert "fake_kernel.py:34" in text


def test_page_of_a_shard_and_of_a_merged_report_say_so() -> None:
    parts = [run("FINE", Shard(i, 2)) for i in (1, 2)]
    assert "1 of 2: a part of the cases has no verdict on the whole" in Page(page(parts[0])).text
    merged = merge(parts)
    text = Page(page(merged)).text
    assert "merged from 2 shards" in text
    assert all(part["digest"] in text for part in parts)


def test_page_shows_scenarios_teeth_and_mutants() -> None:
    report = run("FINE")
    run_row = {"launches": 3, "schedule": "random:7", "memory": "weak", "completion": "latest"}
    plain = case(report, "correctness.fake.good.s1") | {"findings": [], "comparisons": []}
    tooth = {"name": "no_fence", "broken": "the fence is gone", "aims_at": "racecheck", "caught_under": None}
    stages = {stage["name"]: stage for stage in report["stages"]}
    stages["protocol"]["cases"] = [
        plain
        | {"protocol": {"scenario": "reuse", "proves": "counters end at zero", "tooth": None, "runs": [run_row] * 2}},
        plain
        | {"id": "protocol.reuse.no_fence", "status": "fail", "reason": "SURVIVED 2 runs"}
        | {"protocol": {"scenario": "reuse", "proves": "", "tooth": tooth, "runs": [run_row]}},
    ]
    stages["mutants"]["cases"] = [
        plain
        | {"id": f"mutants.tail.{i}", "status": status, "reason": "", "params": {"class": "tail-guard"}}
        | {"facts": {"name": f"tail/{i}", "outcome": outcome, "checks": ["waits"], "expected": ["memcheck"]}}
        for i, (status, outcome) in enumerate([("pass", "killed"), ("fail", "survived")])
    ]
    text = Page(page(report)).text
    assert "reuse ✓ pass counters end at zero: 2 settings, 6 launches random:7/weak/latest" in text
    assert "no_fence : the fence is gone ✗ fail racecheck SURVIVED 2 runs" in text
    assert "tail-guard 1 of 2 killed, 1 not" in text
    assert "survived waits memcheck" in text


# -- figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "text", "style"),
    [
        (0.0, "0", "h0"),
        (0.004, "<.01", "h0"),
        (0.5, ".50", "h5"),
        (0.99999, ".99", "h9"),
        (1.0, "1", "h10"),
        (1.0000001, "1.0×", "bad"),
        (7.5, "7.5×", "bad"),
        (79600.0, "8e4×", "bad"),
        (float("inf"), "inf×", "bad"),
        (float("nan"), "nan×", "bad"),
    ],
)
def test_a_heat_cell_never_shows_a_failure_as_within_the_bound(ratio: float, text: str, style: str) -> None:
    cell = heat.Cell(ratio, 1)
    assert (cell.text, cell.style) == (text, style)


def test_heat_map_keeps_the_worst_of_a_place_and_links_the_failure() -> None:
    report = run("MIXED")
    (entry,) = heat.summary(heat.heat_maps(report))
    (only,) = entry["maps"]
    assert (only.entry, only.output, only.bad) == ("fake", "out", True)
    assert only.worst.failed == "correctness.fake.wrong.s1"
    wrong = case(report, "correctness.fake.wrong.s1")
    wrong["comparisons"][0] |= {"passed": True, "max_ratio": 0.25}
    assert not heat.heat_maps(report)[0].bad


def test_heat_columns_follow_the_numbers_and_rows_the_shapes() -> None:
    report = run("FINE")
    cases = report["stages"][2]["cases"]
    for record, (m, label) in zip(cases, [(512, "m512"), (2, "m2"), (65, "m65")], strict=True):
        record["facts"]["axes"] = {"m": label, "fold": "folded", "shape": f"s{m % 3}"}
        record["params"] = {"m": m}
    (only,) = heat.heat_maps(report)
    assert only.columns == ["m2", "m65", "m512"]
    assert [row for row, _ in only.rows] == ["s2"]
    # Columns of one number, which sets hand out in another order in each process, stand in that of their labels.
    for record, label in zip(cases, ("m4g", "m4ge", "m4ga"), strict=True):
        record["facts"]["axes"]["m"] = label
        record["params"] = {"m": 1 << 20}
    assert heat.heat_maps(report)[0].columns == ["m4g", "m4ga", "m4ge"]
    assert only.axes == "shape by m"


def test_bars_are_to_scale() -> None:
    drawn = bars.bars([bars.Bar(1.5, "ours")], 2.0, [bars.Bar(1.0, "limit")], 'a "label"')
    assert 'width="75.00"' in drawn
    assert 'x="50.00"' in drawn
    assert "a &#34;label&#34;" in drawn


def test_cost_beyond_its_limit_and_off_budget_shows() -> None:
    row = case(run("FINE"), "cost.steady")["cost"]
    budget = {"path": "straight", "bytes_moved": row["bytes_moved"] - 128, "mfma": row["mfma"], "launches": 2}
    (item,) = bars.traffic([row | {"limit": 1.01, "budget": budget}])
    assert item["over"]
    assert item["budget"] == "off budget: bytes +128, launches -1"
    published = {"two_stage": 20.0, "five_stage": 40.0}
    (shown,) = bars.times([row, row | {"published_us": published}])
    assert [line["value"] for line in shown["lines"]] == [2.0, 20.0, 4.0, 40.0]
