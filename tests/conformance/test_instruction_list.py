"""docs/instructions.md is as the table is; a complete conformance run rewrites it (see CONTRIBUTING.md)."""

from __future__ import annotations

import re
from pathlib import Path

from validation.emulator.isa import TABLE

LIST = Path(__file__).parents[2] / "docs" / "instructions.md"
_ROW = re.compile(r"\| `(\w+)` \| (\w+) \| ([\w, ]+) \| ([\w., ]+) \|")


def test_every_row_of_the_list_is_one_of_the_table_and_the_other_way_round() -> None:
    rows = [m.groups() for line in LIST.read_text().splitlines() if (m := _ROW.fullmatch(line))]
    listed = {(arch, name): form for name, form, archs, _ in rows for arch in archs.split(", ")}
    again = "run: pytest tests/conformance --instruction-list docs/instructions.md"
    assert listed == {key: entry.form for key, entry in TABLE.items()}, again


def test_every_row_names_tests_that_exist() -> None:
    rows = [m.groups() for line in LIST.read_text().splitlines() if (m := _ROW.fullmatch(line))]
    named = {test for *_, tests in rows for test in tests.split(", ")}
    assert named
    assert [test for test in sorted(named) if not (Path(__file__).parent / test).is_file()] == []
