"""Command line of the scanner: ``hcgr-width-scan PATH...``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from validation.command_line import CommandLine, Parser, UsageError
from validation.width_scan.limits import INDEX_ROLES, OTHER_ROLES, ROLES, Role
from validation.width_scan.output import exit_code, render
from validation.width_scan.scan import scan_paths

COMMAND = "hcgr-width-scan"
FRAME = CommandLine(COMMAND, about="this says nothing about the files")
_DESCRIPTION = """\
Finds int32 index overflow in Triton, Gluon and FlyDSL kernels, from the syntax tree (nothing is imported).

A finding is a 32-bit product, sum, shift or loop increment, or a 64-bit index cut to 32 bits, that
  1. derives from a run-time parameter, a loaded value or a block id,
  2. was not widened before, and is not bounded by a mask, %, &, min or a compile-time constant,
  3. exceeds 2^31 for values within the limits (see --limits), and
  4. becomes part of an address;
or a buffer descriptor over more than 4 GiB: its offsets are 32-bit bytes, whatever their type.
"""
_EPILOG = """\
a finding and its fix:
    row = tl.program_id(0)                       # fix here:  tl.program_id(0).to(tl.int64)
    x = tl.load(x_ptr + row * stride + cols)     # row * stride: 32 bits, 2^31 at row = 131,072, stride = 16,384
  Widen an operand, not the product: (row * stride).to(tl.int64) has overflowed already.
  A compile-time branch whose other side widens, or whose condition names the width (WITHIN_2GB, LONG_INDEXING),
  is taken for a deliberate 32-bit path. A descriptor is re-based: 64-bit offset into its base, then a small span.

what is right but cannot be seen in the code is suppressed, with the reason:
    offset = page * stride    # width-scan: bounded because the cache holds at most 2^15 pages (checked by the host)

levels:     error; warning for a descriptor whose size the host passes, and so can refuse (does not fail the scan)
exit codes: 0 nothing found; 1 findings (whatever else); 2 usage; 3 no findings, but a file that was asked for could
            not be read, parsed or is in a language it does not know (C++, CuTe DSL, a notebook): each is named, and
            so is a directory without a Python file

examples:
    hcgr-width-scan kernels/                         hcgr-width-scan --format sarif --output scan.sarif .
"""


def limits_table() -> str:
    """The limits that findings assume, as text."""

    def row(kind: str, role: Role) -> str:
        return f"{kind:9} {role.name:16} {role.limit:>13,} {role.typical:>13,}  {role.source}"

    lines = [f"{'':9} {'role':16} {'limit':>13} {'typical':>13}  source"]
    lines += [row("name", role) for role in ROLES]
    lines += [row("variable", role) for role in INDEX_ROLES]
    lines += [row("other", role) for role in OTHER_ROLES]
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog=COMMAND,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="*", metavar="PATH", help="Python files, or directories to search for them")
    parser.add_argument("--format", choices=("plain", "json", "sarif"), default="plain", help="form of the report")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report there, whole or not at all")
    parser.add_argument("--limits", action="store_true", help="print the limits that findings assume, and stop")
    return parser


def _write(path: Path, text: str) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point. Returns the exit code."""
    return FRAME.run(lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> int:
    options = _parser().parse_args(argv)
    if options.limits:
        sys.stdout.write(limits_table())
        return 0
    if not options.paths:
        raise UsageError("no PATH given: name Python files, or directories that hold them")
    if options.output is not None and not options.output.parent.is_dir():
        raise UsageError(f"--output {options.output}: {options.output.parent} is not a directory")
    result = scan_paths(options.paths)
    text = render(result, options.format)
    if options.output is not None:
        _write(options.output, text)
    else:
        sys.stdout.write(text)
    return exit_code(result)
