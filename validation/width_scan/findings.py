"""From sites to findings: one for each place to fix, with its witness and its fix; suppressions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from validation.width_scan.symbols import evaluate, quantities, witness
from validation.width_scan.values import Operand, Site

SUPPRESSION = re.compile(r"#\s*width-scan:\s*(?P<verb>.*)$")
_REASON = re.compile(r"bounded because (?P<reason>\S.{7,})$")
_CAST = {"triton": "{}.to(tl.int64)", "gluon": "{}.to(gl.int64)", "flydsl": "fx.Int64({})"}


@dataclass(frozen=True, slots=True)
class Fix:
    """Where to widen what: `line` is where the operand gets its value, `rewrite` the expression afterwards."""

    line: int
    operand: str
    rewrite: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One overflow to fix.

    `lines` are all operations that the fix repairs, `line` the first of them; `addresses` the lines where a result
    becomes an address. `witness` holds the smallest values for which the operation gives `result` > `maximum`.
    """

    rule: str
    level: str
    path: str
    line: int
    column: int
    end_line: int
    function: str
    dialect: str
    expression: str
    message: str
    witness: dict[str, int]
    result: int
    maximum: int
    unit: str
    lines: tuple[int, ...]
    addresses: tuple[int, ...]
    fix: Fix
    suppressed: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """What became of one file: "scanned", "no device code", "not scanned", "unsupported", "unreadable" or "error".

    "not scanned" is one of another language met in a directory, "unsupported" one that was asked for by name.
    """

    path: str
    status: str
    detail: str = ""
    kernels: int = 0


@dataclass(slots=True)
class ScanResult:
    """Everything a scan found, and every file it looked at or could not look at."""

    findings: list[Finding] = field(default_factory=list)
    suppressed: list[Finding] = field(default_factory=list)
    stale_suppressions: list[tuple[str, int]] = field(default_factory=list)
    files: list[FileStatus] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """Findings that fail a scan."""
        return [finding for finding in self.findings if finding.level == "error"]

    @property
    def unread(self) -> list[FileStatus]:
        """Files that were asked for and could not be scanned."""
        return [file for file in self.files if file.status in ("unreadable", "error", "unsupported")]


def _best(site: Site) -> Operand | None:
    """The operand to widen: a run-time index before a loaded or passed-in one, never a constant."""
    candidates = [o for o in site.operands if not o.constant]
    order = {"program id": 0, "loop": 1, "loaded value": 2, "thread id": 4, "range": 4}
    return min(candidates, key=lambda o: (order.get(o.source, 3), not o.variable), default=None)


def _fix(site: Site) -> Fix:
    if site.rule == "span":
        return Fix(
            site.line,
            "",
            "",
            "re-base: add the selected part's 64-bit offset to the base address, then make the "
            "descriptor over that part alone; offsets inside it are 32-bit bytes whatever their type",
        )
    if site.rule == "narrowing":
        return Fix(site.line, site.text, "", "keep the index 64-bit up to the address")
    operand = _best(site)
    if operand is None:
        return Fix(site.line, site.text, "", "compute the expression in 64 bits")
    cast = _CAST.get(site.dialect, "{}.to(tl.int64)")
    compound = isinstance(operand.node, (ast.BinOp, ast.UnaryOp, ast.IfExp)) and not cast.startswith("fx")
    bare = f"({operand.text})" if compound else operand.text
    rewrite = site.text.replace(operand.text, cast.format(bare), 1)
    where = f"`{operand.variable}` (line {operand.line})" if operand.variable and operand.line else f"`{operand.text}`"
    return Fix(
        operand.line or site.line, operand.variable or operand.text, rewrite, f"widen {where} before the operation"
    )


def _group_key(site: Site) -> tuple[Any, ...]:
    operand = _best(site)
    if site.rule == "span" and site.anchor[0]:
        return (site.path, site.function.partition(".")[0], *site.anchor)
    if site.rule in ("span", "narrowing") or operand is None or not operand.variable or not operand.line:
        return (site.path, site.line, site.column)
    return (site.path, operand.variable, operand.line)


def _message(site: Site, values: dict[str, int], result: int, others: int) -> str:
    what = {"span": "descriptor reaches", "narrowing": "32-bit copy of"}.get(site.rule, "32-bit")
    at = ", ".join(f"{name} = {value:,}" for name, value in values.items())
    text = f"{what} `{site.text}` is {result:,} {site.unit} at {at}: more than {site.threshold:,}"
    return text + (f" (and {others} more operation{'s' if others > 1 else ''} with the same fix)" if others else "")


def group(sites: Iterable[Site], sinks: dict[tuple[str, int, int, str], set[int]]) -> list[Finding]:
    """Findings, in file order. Sites that no values within the limits break are dropped."""
    groups: dict[tuple[Any, ...], list[tuple[Site, dict[str, int]]]] = {}
    for site in sites:
        values = witness(site.sym, site.threshold)
        if values is not None:
            values = values or {"the size": site.sym.hi}  # known at compile time
            for quantity in quantities(site.sym):  # an index below a parameter takes one more of that
                if quantity.below:
                    values.setdefault(quantity.below, values[quantity.text] + 1)
            groups.setdefault(_group_key(site), []).append((site, values))
    findings = []
    for members in groups.values():
        members.sort(key=lambda member: (member[0].level != "error", member[0].line, member[0].column))
        site, values = members[0]
        lines = tuple(sorted({m.line for m, _ in members}))
        addresses = tuple(sorted({line for m, _ in members for line in sinks.get(m.key, ())}))
        result = evaluate(site.sym, values)
        findings.append(
            Finding(
                site.rule,
                site.level,
                site.path,
                site.line,
                site.column,
                site.end_line,
                site.function,
                site.dialect,
                site.text,
                _message(site, values, result, len(members) - 1),
                values,
                result,
                site.threshold,
                site.unit,
                lines,
                addresses,
                _fix(site),
            )
        )
    return sorted(findings, key=lambda f: (f.path, f.line, f.column))


def suppress(findings: list[Finding], sources: dict[str, list[str]], result: ScanResult) -> None:
    """Split findings by ``# width-scan: bounded because <reason>`` on an operation's line, the line above, or the
    line of the fix. A suppression without a reason is itself a finding; one that suppresses nothing is stale."""
    used: set[tuple[str, int]] = set()
    comments: dict[str, dict[int, str]] = {}
    for path, lines in sources.items():
        for number, line in _comments(lines):
            match = SUPPRESSION.search(line)
            if match is None:
                continue
            reason = _REASON.match(match["verb"].strip())
            if reason is None:
                result.findings.append(_bad_suppression(path, number, line))
                used.add((path, number))
            else:
                comments.setdefault(path, {})[number] = reason["reason"]
    for finding in findings:
        held = comments.get(finding.path, {})
        places = {number for first in (*finding.lines, finding.fix.line) for number in (first - 1, first)}
        places |= set(range(finding.line, finding.end_line + 1))
        hit = next((number for number in sorted(places) if number in held), None)
        if hit is None:
            result.findings.append(finding)
        else:
            used.add((finding.path, hit))
            result.suppressed.append(
                Finding(**{**{name: getattr(finding, name) for name in Finding.__slots__}, "suppressed": held[hit]})
            )
    result.stale_suppressions += [
        (path, number) for path, held in comments.items() for number in held if (path, number) not in used
    ]
    result.findings.sort(key=lambda f: (f.path, f.line, f.column))


def _comments(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Comments that speak to the scanner, with their lines; strings that quote one do not count."""
    if not any("width-scan:" in line for line in lines):
        return
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.COMMENT and "width-scan:" in token.string:
            yield token.start[0], token.string


def _bad_suppression(path: str, number: int, line: str) -> Finding:
    text = line.strip()
    return Finding(
        "suppression",
        "error",
        path,
        number,
        0,
        number,
        "",
        "",
        text,
        "suppression without a reason: write `# width-scan: bounded because <why it fits 32 bits>`",
        {},
        0,
        0,
        "",
        (number,),
        (),
        Fix(number, "", "", "state the reason, or widen"),
    )
