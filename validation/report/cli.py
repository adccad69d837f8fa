"""``hcgr-report``: reads, compares, joins and checks reports of ``hcgr-validate``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from validation.operation import JsonDict
from validation.report import diff, merge, stale
from validation.report.check import InvalidReportError
from validation.report.load import UnreadableReportError, parse_report, read_report
from validation.report.show import FORMATS, text, write
from validation.report.writer import ReportPathError, probe, write_report

COMMAND = "hcgr-report"
GOOD, BAD, USAGE = 0, 1, 2

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
  2  bad arguments, or nothing to read"""


class UsageError(Exception):
    """Bad arguments; the message is one line for the user."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


def parser() -> argparse.ArgumentParser:
    """The argument parser; its ``error`` raises :class:`UsageError`."""
    top = _Parser(
        prog=COMMAND,
        description=(__doc__ or "").partition(": ")[2],
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

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
        "--repo", type=Path, default=Path(), metavar="DIR", help="git repository that knows REV (default: here)"
    )
    checked.add_argument(
        "--pass", action="store_true", dest="must_pass", help="also: the verdict must be PASS, on everything"
    )
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = parser().parse_args(arguments)
        return _COMMANDS[options.command](options, arguments)
    except (UsageError, UnreadableReportError, ReportPathError, stale.RevisionError, diff.DiffError) as error:
        return _complain(USAGE, f"error: {error.args[0]} (see {COMMAND} --help)")
    except InvalidReportError as error:
        return _complain(BAD, *error.problems)
    except merge.MergeError as error:
        return _complain(BAD, f"not merged: {error}")
    except BrokenPipeError:
        with suppress(OSError):  # the reader of our output is gone; a flush at exit must not complain again
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD


def _complain(code: int, *lines: str) -> int:
    for line in lines:
        print(f"{COMMAND}: {line}", file=sys.stderr, flush=True)
    return code


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
        name = shlex.quote(str(path))
        try:
            report = read_report(path)
            found = stale.staleness(report, commit) if commit is not None else []
            found += _not_passed(report["verdict"]) if options.must_pass else []
        except InvalidReportError as error:
            found = error.problems
        if found:
            code = _complain(BAD, *(f"{name}: {what}" for what in found))
        else:
            print(f"{name}: holds together: {report['verdict']['text']}")
    return code


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
