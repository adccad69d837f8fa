"""Thresholds and gates in what CI runs: options that the change lowered, dropped or added."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch

from validation import devices
from validation.base.policy import pytest_options
from validation.base.policy.finding import Finding, Trees

KIND = "threshold"
PLACES = (".ci/*", ".github/*", "Makefile", ".pre-commit-config.yaml", "pyproject.toml", "tox.ini", "setup.cfg")


def _rank(level: str) -> float:
    return devices.rank(level) if level in devices.LEVELS else -1.0


@dataclass(frozen=True)
class _Option:
    """An option of a command. ``strength`` orders its values, larger demanding more; without it only presence counts.

    ``demands``: whether giving it demands more (its going is a finding) or less (its coming is one).
    """

    pattern: str
    demands: bool
    strength: Callable[[str], float] | None = None


#: Commands that gate; fewer calls of one in a file demand less.
COMMANDS = ("hcgr-validate", "hcgr-mutate", "hcgr-report check", "pytest", "mypy", "ruff check")
_GATES = "|".join(rf"(?<![\w-]){re.escape(command)}\s" for command in COMMANDS)
_VALUE = r"[ =]+[\"']?([^\s\"']+)"
OPTIONS = {
    "--min-kill-rate": _Option(rf"--min-kill-rate{_VALUE}", True, float),
    "--cov-fail-under": _Option(rf"--cov-fail-under{_VALUE}", True, float),
    "--max-wrong-check": _Option(rf"--max-wrong-check{_VALUE}", False, lambda text: -float(text)),
    "--require": _Option(rf"--require{_VALUE}", True, _rank),
    "--pass": _Option(r"\s--pass\b", True),
    "--against": _Option(r"--against\b", True),
    "--base": _Option(r"--base\b", True),
    "--skip": _Option(rf"\s--skip{_VALUE}", False),
    "--only": _Option(rf"\s--only{_VALUE}", False),
    "--accept-policy": _Option(rf"--accept-policy{_VALUE}", False),
    "accept-policy": _Option(r"(?<![\w-])accept-policy:[ ]+(\S.*)", False),
    "failure ignored": _Option(r"\|\|\s*(?:true|:|exit 0)(?=[\s;]|$)|\bset \+(?:e|o pipefail)\b", False),
    "failure overwritten": _Option(rf"(?:{_GATES})[^\n]*?;\s*(?:true|:|exit 0|echo)\b", False),
    "output piped": _Option(rf"(?:{_GATES})(?:(?!\|\|)[^|\n])*\|(?!\|)", False),
    "continue-on-error": _Option(r"continue-on-error:\s*true\b", False),
}


def find(trees: Trees) -> Iterator[Finding]:
    """Each option that demands less in a file than it did, and each command that is called less often."""
    for file in trees.listed(_looked_at):
        before, after = (_lines(tree.text(file)) if file in tree.files else [] for tree in (trees.base, trees.head))
        for name, option in OPTIONS.items():
            yield from _option(file, name, option, before, after)
        for command in COMMANDS:
            old, new = (_calls(command, lines) for lines in (before, after))
            if new < old:
                yield Finding(KIND, file, command, "called less often", str(old), str(new))
        if not file.endswith(".toml"):  # no script: its options are settings, and names in it requirements
            yield from pytest_options.options(file, pytest_options.calls(before), pytest_options.calls(after))


def _looked_at(name: str) -> bool:
    return any(fnmatch(name, place) for place in PLACES)


def _lines(text: str) -> list[str]:
    """Lines without what stands behind a comment sign, continued ones joined."""
    return [re.sub(r"(?:^|\s)#.*", "", line) for line in text.replace("\\\n", " ").splitlines()]


def _calls(command: str, lines: list[str]) -> int:
    return sum(len(re.findall(rf"(?<![\w-]){re.escape(command)}(?![\w-])", line)) for line in lines)


def _option(file: str, name: str, option: _Option, before: list[str], after: list[str]) -> Iterator[Finding]:
    old, new = (_values(option, lines) for lines in (before, after))
    gone, come = old - new, new - old
    if option.strength is not None and gone and come:
        weakest = [min(map(_number(option), values), default=0.0) for values in (old, new)]
        if weakest[1] < weakest[0]:
            yield Finding(KIND, file, name, "lowered" if option.demands else "raised", _shown(gone), _shown(come))
    elif option.demands and gone and new.total() < old.total():
        yield Finding(KIND, file, name, "dropped", _shown(gone), _shown(come))
    elif not option.demands and come and new.total() > old.total():
        yield Finding(KIND, file, name, "added", _shown(gone), _shown(come))
    elif not option.demands and come and option.strength is None:
        yield Finding(KIND, file, name, "changed", _shown(gone), _shown(come))


def _number(option: _Option) -> Callable[[str], float]:
    """The strength of a value as it is written; one that is no number (a variable) is as weak as can be."""

    def number(text: str) -> float:
        assert option.strength is not None
        try:
            return option.strength(text)
        except ValueError:
            return float("-inf")

    return number


def _values(option: _Option, lines: list[str]) -> Counter[str]:
    found = (match for line in lines for match in re.finditer(option.pattern, line))
    return Counter(match.group(1) if match.re.groups else match.group().strip() for match in found)


def _shown(counted: Counter[str]) -> str:
    return ", ".join(sorted(counted.elements()))
