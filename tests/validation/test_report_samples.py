"""The sample reports under ``reports/`` are reports by today's schema, and their pages show what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_support import run

from validation import devices
from validation.report import samples
from validation.report.check import problems
from validation.report.load import parse_report
from validation.report.show import FORMATS

REBUILD = "rebuild it with: python -m validation.report.samples"
LARGEST_PAGE = 1_500_000


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_sample_fits_the_schema_and_holds_together(arch: str) -> None:
    report = parse_report(samples.paths()[arch])
    found = problems(report)
    assert not found, f"{found[:3]}; {REBUILD}"
    assert (report["arch"], report["operation"]["name"]) == (arch, "hcgr")


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_sample_page_is_what_the_report_gives_today(arch: str) -> None:
    path = samples.paths()[arch]
    text = path.with_suffix(".html").read_text(encoding="utf-8")
    current = text == FORMATS["html"](parse_report(path))
    assert current, f"{path.with_suffix('.html').name} is stale: python -m validation.report.samples --render"
    assert len(text.encode()) < LARGEST_PAGE


@pytest.mark.parametrize("arch", devices.ARCHES)
def test_sample_names_no_place_of_the_machine_that_made_it(arch: str) -> None:
    report = parse_report(samples.paths()[arch])
    assert not [word for word in report["command"] if word.startswith(("/", "~"))]
    assert report["source"]["commit"]


def test_nothing_else_lies_among_the_samples() -> None:
    expected = {p for path in samples.paths().values() for p in (path, path.with_suffix(".html"))}
    assert set(samples.FOLDER.iterdir()) == expected


@pytest.mark.parametrize("name", ["MIXED", "FINE"])
def test_layout_is_the_report_with_a_line_for_each_case(name: str) -> None:
    report = run(name)
    text = samples.layout(report)
    assert json.loads(text) == report
    assert list(json.loads(text)) == list(report)
    cases = [c["id"] for s in report["stages"] for c in s["cases"]]
    assert [
        json.loads(line.strip().rstrip(","))["id"] for line in text.splitlines() if line.startswith("   {")
    ] == cases


def test_rebuilding_validates_both_archs_and_renders(tmp_path: Path) -> None:
    """With the real operation and the cheapest stage, which executes no kernel: INCONCLUSIVE, and shown as such."""
    assert samples.rebuild(["--only", "environment", "--jobs", "1"], tmp_path) == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(
        name for arch in devices.ARCHES for name in (f"hcgr.{arch}.html", f"hcgr.{arch}.json")
    )
    for path in samples.paths(tmp_path).values():
        assert problems(parse_report(path)) == []
        assert "INCONCLUSIVE (none, partial)" in path.with_suffix(".html").read_text(encoding="utf-8")


def test_a_run_that_was_refused_leaves_the_samples_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert samples.rebuild(["--only", "nothing"], tmp_path) == 2
    assert "unknown stage" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
