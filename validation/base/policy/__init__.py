"""What a change did to the judge: policy findings. They stand by themselves, whatever colour the cases have.

A tolerance that moved, a skip that was added, a grid case that went: after it, a PASS proves something else than the
same word proved before. So each finding keeps a verdict from PASS until somebody accepts it by name
(``--accept-policy NAME``), and an accepted one stays in the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from validation.base.policy import (
    budget,
    grid,
    hooks,
    machinery,
    mutants,
    pytest_options,
    skips,
    slack,
    suite,
    thresholds,
    tolerance,
)
from validation.base.policy.finding import Finding, Tree, Trees
from validation.operation import Operation

__all__ = ["BLIND", "RULES", "Finding", "Tree", "Trees", "collect", "compared", "notes"]

#: What no rule can see, whatever changed.
BLIND = (
    "policy rules read source text: what fixtures, helpers, plugins and environments do to tests at run time, "
    "parameters that are computed, and assertions that hold for more values than before are not seen"
)

#: In the order in which findings are shown.
RULES: tuple[Callable[[Trees], Iterator[Finding]], ...] = (
    tolerance.find,
    slack.find,
    skips.find,
    suite.find,
    hooks.find,
    pytest_options.find,
    grid.find,
    budget.find,
    mutants.find,
    thresholds.find,
    machinery.find,
)


def collect(trees: Trees) -> list[Finding]:
    """Every finding between two checkouts, each name once."""
    found: dict[str, Finding] = {}
    for rule in RULES:
        for finding in rule(trees):
            number = 1
            name = finding.name
            while name in found:
                number += 1
                name = f"{finding.name}#{number}"
            found[name] = finding if number == 1 else _renamed(finding, number)
    return list(found.values())


def compared(base: Path, head: Path, operation: Operation, operation_name: str, seed: int) -> Trees:
    """The two checkouts, for :func:`collect` and :func:`notes`."""
    return Trees(Tree(base), Tree(head), operation, operation_name, seed)


def notes(trees: Trees) -> list[str]:
    """What a reader should know of the judge, and need not accept."""
    return [*machinery.notes(trees), *suite.notes(trees), *hooks.notes(trees)]


def _renamed(finding: Finding, number: int) -> Finding:
    return replace(finding, subject=f"{finding.subject}#{number}")
