"""``hcgr-report``: reads, compares, joins and checks reports of ``hcgr-validate``."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from validation.command_line import CommandLine, Parser
from validation.operation import JsonDict
from validation.report import diff, merge, stale
from validation.report.check import InvalidReportError
from validation.report.load import UnreadableReportError, parse_report, read_report
from validation.report.show import FORMATS, text, write
from validation.report.writer import ReportPathError, probe, write_report

COMMAND = "hcgr-report"
GOOD, BAD = 0, 1

_EPILOG = """\
examples:
  hcgr-report show out.json                               the table that ended the run
  hcgr-report show out.json --format html -o out.html     a page that needs nothing else
  hcgr-report diff base.json head.json                    what changed; 1 when head is worse
  hcgr-report merge shard.*.json -o out.json              one report out of all shards of a run
  hcgr-report check out.json --against HEAD --pass        what a merge gate wants to know

exit codes:
  0  as asked: shown, merged, valid, or B no worse than A
  1  an invalid or stale report, shards that do not belong together, or B worse than A
  2  bad arguments, or nothing to read
  3  our own failure, or the reader of the output is gone"""


def _problems(error: Exception) -> list[str]:
    return list(cast(InvalidReportError, error).problems)


FRAME = CommandLine(
    COMMAND,
    usage=(UnreadableReportError, ReportPathError, stale.RevisionError, diff.DiffError),
    refusals={InvalidReportError: _problems, merge.MergeError: lambda error: [f"not merged: {error}"]},
    about="this says nothing about the report",
)


def parser() -> argparse.ArgumentParser:
    """The argument parser; its ``error`` raises :class:`UsageError`."""
    top = Parser(
        prog=COMMAND,
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    show = commands.add_parser("show", help="a report as text, JUnit XML, SARIF, HTML or Markdown", allow_abbrev=False)
    show.add_argument("report", type=Path, metavar="REPORT")
    show.add_argument("--format", choices=tuple(FORMATS), default="text", help="default: text")
    show.add_argument("-o", "--output", type=Path, metavar="PATH", help="write there, not to standard output")

    compared = commands.add_parser("diff", help="what changed from report A to report B", allow_abbrev=False)
    compared.add_argument("a", type=Path, metavar="A")
    compared.add_argument("b", type=Path, metavar="B")

    joined = commands.add_parser("merge", help="join the reports of hcgr-validate --shard i/n", allow_abbrev=False)
    joined.add_argument("shards", type=Path, nargs="+", metavar="SHARD")
    joined.add_argument("-o", "--output", type=Path, required=True, metavar="PATH", help="the report on the whole")

    checked = commands.add_parser("check", help="whether reports may be believed", allow_abbrev=False)
    checked.add_argument("reports", type=Path, nargs="+", metavar="REPORT")
    checked.add_argument("--against", metavar="REV", help="also: must speak of this revision, without other changes")
    checked.add_argument(
        "--repo",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="git repository that knows REV and the base (default: here)",
    )
    checked.add_argument(
        "--pass", action="store_true", dest="must_pass", help="also: the verdict must be PASS, on everything"
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return FRAME.run(lambda: _run(arguments))


def _run(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    return _COMMANDS[options.command](options, arguments)


def _show(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    if options.output is not None:
        probe(options.output)
        write(options.output, parse_report(options.report), options.format)
    else:
        sys.stdout.write(FORMATS[options.format](read_report(options.report)))
    return GOOD


def _diff(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    a, b = read_report(options.a), read_report(options.b)
    changes = diff.compare(a, b)
    for line in diff.lines(a, b, changes):
        print(line)
    return BAD if diff.is_worse(changes) else GOOD


def _merge(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    probe(options.output)
    merged = merge.merge([parse_report(path) for path in options.shards], (COMMAND, *arguments))
    write_report(options.output, merged)
    sys.stdout.write(text(merged))
    print(f"  report: {options.output}")
    return GOOD


def _check(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    commit = stale.resolve(options.against, options.repo) if options.against else None
    code = GOOD
    for path in options.reports:
        name, unseen = shlex.quote(str(path)), ""
        try:
            report = read_report(path)
            found = stale.staleness(report, commit) if commit is not None else []
            found += stale.moved(report, options.repo)
            planned, unseen = _planned(report)
            found += planned
            found += _not_passed(report["verdict"]) if options.must_pass else []
        except InvalidReportError as error:
            found = error.problems
        if found:
            FRAME.complain(*(f"{name}: {what}" for what in found))
            code = BAD
        else:
            print(f"{name}: holds together: {report['verdict']['text']}{unseen}")
    return code


def _planned(report: JsonDict) -> tuple[list[str], str]:
    """How the cases are not those of the plan; and, for the end of a line, why it cannot be made again here."""
    from validation.report.replan import not_plannable, unplanned  # with it comes the runner

    why = not_plannable(report)
    return ([], f" (its plan was not made again: {why})") if why else (list(unplanned(report)), "")


def _not_passed(verdict: JsonDict) -> list[str]:
    if (verdict["result"], verdict["scope"]) == ("PASS", "full"):
        return []
    return [f"the verdict is {verdict['text']}, PASS on everything is asked for"]


_COMMANDS: dict[str, Callable[[argparse.Namespace, Sequence[str]], int]] = {
    "show": _show,
    "diff": _diff,
    "merge": _merge,
    "check": _check,
}

if __name__ == "__main__":
    sys.exit(main())
