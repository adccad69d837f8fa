"""``python -m validation.width_scan.measure CASES_JSON FILES_DIR``: recall and precision on known overflows.

CASES_JSON holds ``{"cases": [{"name", "repo", "path", "before", "after", "changed_before_lines"}]}``: public files
before and after a fix. FILES_DIR holds their text as ``<name>/before.<suffix>`` and ``<name>/after.<suffix>``.
Prints a Markdown table. A case counts as caught where a finding's operation or fix lies within three lines of a
line that the fix changed; cases without such lines, or without an after-file, count by file.

``python -m validation.width_scan.measure --speed FILES_DIR [--count N]`` prints what a scan of N files takes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from validation.width_scan.findings import Finding, ScanResult
from validation.width_scan.scan import scan_paths

#: Lines between a finding and a changed line that still count as the same place.
TOLERANCE = 3
#: After-files that hold other overflows of the same kind, unfixed at that commit.
NOT_CLEAN_AFTER = frozenset({"fla_conv_783", "aiter_pa_mqa_logits_gluon_load", "liger_rms_norm", "aiter_mha_strides"})


#: Kernels of other after-files in which the same overflow is still there, by reading: their fix left them alone.
STILL_OVERFLOWS: dict[str, tuple[str, ...]] = {
    "aiter_flydsl_mixed_moe_gemm": ("compile_mixed_moe_gemm2",),
    "ao_mx_kernels": ("_dequant_mxfp8_kernel",),
    "unsloth_fp8_weight_dequant": ("_w8a8_block_fp8_matmul",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case: what was found before and after the fix."""

    name: str
    language: str
    both: bool
    by_line: bool
    caught: bool
    changed: int
    changed_caught: int
    before: int
    after: list[Finding] | None
    clean_after: bool
    note: str

    @property
    def false(self) -> list[Finding]:
        """Findings in the after-file that nothing excuses."""
        left = STILL_OVERFLOWS.get(self.name, ())
        return [f for f in self.after or [] if self.clean_after and f.function.split(".")[0] not in left]


def _one(directory: Path, side: str) -> Path | None:
    return next(iter(sorted(directory.glob(f"{side}.*"))), None)


def _near(finding: Finding, line: int) -> bool:
    return any(abs(number - line) <= TOLERANCE for number in (*finding.lines, finding.fix.line, finding.line))


def _language(result: ScanResult, path: Path) -> str:
    status = result.files[0]
    if status.status != "scanned":
        return status.detail.removesuffix(" is not a language it knows") or status.status
    text = path.read_text(encoding="utf-8", errors="replace")
    return "FlyDSL" if "flydsl" in text else "Gluon" if "gluon" in text else "Triton"


def judge(case: dict[str, Any], files: Path) -> Outcome | None:
    """One case's outcome, or None if its before-file is not there."""
    name = case["name"]
    before_path, after_path = _one(files / name, "before"), _one(files / name, "after")
    if before_path is None:
        return None
    before = scan_paths([before_path])
    after = scan_paths([after_path]) if after_path is not None else None
    changed = case.get("changed_before_lines") or []
    by_line = bool(changed) and after is not None
    hit = [line for line in changed if any(_near(finding, line) for finding in before.errors)]
    language = _language(before, before_path)
    caught = bool(hit) if by_line else bool(before.errors)
    status = before.files[0]
    note = "" if status.status == "scanned" else f"{status.status}: {status.detail}"
    warnings = len(after.findings) - len(after.errors) if after is not None else 0
    if warnings:
        note = f"after: {warnings} warnings (descriptors of a run-time size)"
    return Outcome(
        name,
        language,
        after is not None,
        by_line,
        caught,
        len(changed),
        len(hit),
        len(before.errors),
        after.errors if after is not None else None,
        name not in NOT_CLEAN_AFTER,
        note,
    )


_KNOWN = ("Triton", "Gluon", "FlyDSL")


def table(outcomes: Sequence[Outcome], missing: Sequence[str]) -> str:
    """The Markdown table and its summary."""
    lines = [
        "| case | language | judged by | caught | findings before | findings after | false | note |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for o in sorted(outcomes, key=lambda o: (o.language not in _KNOWN, not o.both, o.name)):
        if o.language not in _KNOWN:
            lines.append(f"| {o.name} | {o.language} | – | not scanned | – | – | – | {o.note} |")
            continue
        how = f"line ({o.changed_caught} of {o.changed})" if o.by_line else "file"
        after = "–" if o.after is None else str(len(o.after))
        false = "–" if o.after is None else str(len(o.false)) if o.clean_after else "not clean"
        cells = (o.name, o.language, how, _yes(o.caught), str(o.before), after, false, o.note)
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *_summary([o for o in outcomes if o.language in _KNOWN], outcomes, missing)]
    return "\n".join(lines)


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def _summary(known: list[Outcome], outcomes: Sequence[Outcome], missing: Sequence[str]) -> list[str]:
    pairs = [o for o in known if o.both]
    alone = [o for o in known if not o.both]
    clean = [o for o in pairs if o.clean_after]
    after = [len(o.after or []) for o in clean]
    false = [len(o.false) for o in clean]
    caught = sum(o.caught for o in pairs)
    lines = [
        f"- Recall, cases with both files: {caught} of {len(pairs)} ({caught / max(len(pairs), 1):.0%}); "
        f"without an after-file, by file: {sum(o.caught for o in alone)} of {len(alone)}.",
        f"- After-files that should be clean: {len(clean)}. Findings in them: {sum(after)}, at most "
        f"{max(after, default=0)} in one; {sum(after) - sum(false)} of them are overflows that the fix left in other "
        f"kernels of the file. False: {sum(false)}, at most {max(false, default=0)} in one; "
        f"files with none: {sum(n == 0 for n in false)}.",
    ]
    others = [o.name for o in outcomes if o.language not in _KNOWN]
    if others:
        lines.append(f"- Not scanned, other languages: {', '.join(others)}.")
    if missing:
        lines.append(f"- No text at hand: {', '.join(missing)}.")
    return lines


#: Files of the speed that is asked of a scan, and seconds that they may take.
SPEED_FILES, SPEED_SECONDS = 1000, 20.0


def speed(folder: Path, count: int) -> str:
    """What a scan of `count` files takes: those of `folder`, over and over, as files of their own.

    Raises:
        FileNotFoundError: there is no Python file below `folder`.
    """
    files = sorted(folder.rglob("*.py"))
    if not files:
        raise FileNotFoundError(f"{folder}: no Python file below it")
    with tempfile.TemporaryDirectory(prefix="width-scan-") as place:
        for number, file in zip(range(count), itertools.cycle(files), strict=False):
            shutil.copyfile(file, Path(place, f"f{number}.py"))
        lines = sum(len(path.read_bytes().splitlines()) for path in Path(place).iterdir())
        started = time.process_time()
        result = scan_paths([place])
        seconds = time.process_time() - started
    kernels = sum(file.kernels for file in result.files)
    return (
        f"{len(result.files)} files, {lines:,} lines, {kernels:,} kernels: {seconds:.1f} CPU s, "
        f"{seconds / count * SPEED_FILES:.1f} s per {SPEED_FILES:,} files (asked for: at most {SPEED_SECONDS:g})"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Command line. Exit code 0; 2 for usage."""
    parser = argparse.ArgumentParser(
        prog="python -m validation.width_scan.measure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", type=Path, nargs="?", metavar="CASES_JSON")
    parser.add_argument("files", type=Path, nargs="?", metavar="FILES_DIR")
    parser.add_argument("--speed", type=Path, metavar="FILES_DIR", help="time a scan of these files instead")
    parser.add_argument("--count", type=int, default=SPEED_FILES, metavar="N", help="files of it (default %(default)s)")
    parser.add_argument("--details", action="store_true", help="list every finding in an after-file")
    options = parser.parse_args(argv)
    if options.speed is not None:
        if options.count < 1 or not any(options.speed.rglob("*.py")):
            parser.error(f"--speed needs a directory with Python files, --count at least 1; got {options.speed}")
        sys.stdout.write(speed(options.speed, options.count) + "\n")
        return 0
    if options.cases is None or options.files is None:
        parser.error("need CASES_JSON and FILES_DIR, or --speed FILES_DIR")
    if not options.cases.is_file() or not options.files.is_dir():
        parser.error(f"need a JSON file and a directory, got {options.cases} and {options.files}")
    cases = json.loads(options.cases.read_text(encoding="utf-8"))["cases"]
    judged = [(case["name"], judge(case, options.files)) for case in cases]
    outcomes = [outcome for _, outcome in judged if outcome is not None]
    sys.stdout.write(table(outcomes, [name for name, outcome in judged if outcome is None]) + "\n")
    if options.details:
        for outcome in outcomes:
            for finding in outcome.after or []:
                sys.stdout.write(f"{outcome.name}: line {finding.line}: {finding.message}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
