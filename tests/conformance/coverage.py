"""Which test executed which mnemonic. ``launch`` results and the harness report here through the program they ran."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

#: (arch, mnemonic) -> test files
_executed: dict[tuple[str, str], set[str]] = {}


def record(arch: str, mnemonics: Iterable[str]) -> None:
    """Note that the running test executed these mnemonics."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "").split("::")[0].rsplit("/", 1)[-1]
    for mnemonic in mnemonics:
        _executed.setdefault((arch, mnemonic), set()).add(test)


def as_rows() -> list[list[str]]:
    return [[arch, mnemonic, test] for (arch, mnemonic), tests in _executed.items() for test in tests]


def merge(rows: Iterable[list[str]]) -> None:
    for arch, mnemonic, test in rows:
        _executed.setdefault((arch, mnemonic), set()).add(test)


def missing(table: Mapping[tuple[str, str], Any]) -> list[str]:
    return sorted(f"{m} ({a})" for a, m in table if (a, m) not in _executed)


def markdown(table: Mapping[tuple[str, str], Any]) -> str:
    """The list of covered mnemonics: form, architectures, tests."""
    lines = [
        "# Instructions that the emulator executes",
        "",
        "Generated: `pytest tests/conformance --instruction-list docs/instructions.md`. A mnemonic is listed when a",
        "conformance test has executed it on each of the architectures named; others do not exist for the emulator.",
        "",
        f"{len({m for _, m in table})} mnemonics: {sum(a == 'gfx942' for a, _ in table)} on gfx942, "
        f"{sum(a == 'gfx950' for a, _ in table)} on gfx950.",
        "",
        "| mnemonic | form | archs | tests |",
        "|---|---|---|---|",
    ]
    for mnemonic in sorted({m for _, m in table}):
        archs = [a for a in ("gfx942", "gfx950") if (a, mnemonic) in table]
        tests = sorted(set().union(*(_executed[a, mnemonic] for a in archs)))
        lines.append(f"| `{mnemonic}` | {table[archs[0], mnemonic].form} | {', '.join(archs)} | {', '.join(tests)} |")
    return "\n".join(lines) + "\n"
