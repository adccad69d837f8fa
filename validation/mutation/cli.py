"""``hcgr-mutate``: how many known defects the validator sees."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NoReturn

from validation import devices
from validation.command_line import CommandLine, Parser, UsageError
from validation.executors import Executor, ExecutorError, opened
from validation.executors.identity import digest
from validation.executors.options import add_executor, check_executor
from validation.mutation import result, summary
from validation.mutation.console import Console
from validation.mutation.coverage import DefaultRun
from validation.mutation.edit import ROOT
from validation.mutation.engine import EngineError, Settings, run
from validation.mutation.gate import MAX_WRONG_CHECK, MIN_KILL_RATE
from validation.mutation.generated import generate, load_targets, sample
from validation.mutation.manifest import CLASSES, CORPUS, Corpus, ManifestError, Mutant, load_corpus
from validation.mutation.outcome import COMMAND, replay
from validation.mutation.state import PACKAGES, State, sources_digest
from validation.operation import JsonDict, UnknownOperationError, load_operation, registered_operations
from validation.report.verdict import EXIT_CODES
from validation.report.writer import ReportPathError, probe, report_paths
from validation.stages.environment import describe, source_state

STATE = Path(".hcgr-mutate") / "state.jsonl"

_DESCRIPTION = """\
Build known defects into the op, one at a time, and run the validator's cases on each: a defect that no check sees
survives, and shows where the validator is blind. The unchanged code is run first and must pass; then a defect that
must be seen; then the mutants, each in a process of its own, until the first case that fails."""
_EPILOG = """\
examples:
  hcgr-mutate --arch gfx942 --report mutants.json     the corpus on one arch
  hcgr-mutate --arch all --class counter-reuse        one class, both archs
  hcgr-mutate --arch gfx942 --mutant tail-guard/combine-row   one mutant, as a survivor prints it
  hcgr-mutate --arch gfx942 --generated --sample 20 --seed 1  twenty mutants that operators make
  hcgr-mutate --arch gfx942 --resume                  go on where an interrupted run stopped
  hcgr-mutate --table mutants.json                    the kill matrix by class, in Markdown

exit codes:
  0    PASS          enough mutants were killed, by their own checks
  1    FAIL          a survivor, too many kills by other checks, or an equivalence to review again
  2    usage         bad arguments or a malformed manifest; nothing was run
  3    INCONCLUSIVE  the unchanged code fails, the forced failure was not seen, no mutant, or our own failure
  130  interrupted   what was done is kept; go on with --resume"""


FRAME = CommandLine(
    COMMAND,
    usage=(ManifestError, ReportPathError, FileNotFoundError, UnknownOperationError),
    interrupted="interrupted; what was done is kept, go on with --resume",
    about="this says nothing about the mutants",
)


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"must be from 0 to 1 (got {text!r})")
    return value


def parser() -> argparse.ArgumentParser:
    """The argument parser; its ``error`` raises :class:`UsageError`."""
    p = Parser(
        prog=COMMAND,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = p.add_argument
    add("--arch", action="append", choices=(*devices.ARCHES, "all"), default=[], help="may be repeated")
    add("--mutant", action="append", default=[], metavar="NAME", help="this mutant only; may be repeated")
    add("--class", dest="classes", action="append", default=[], choices=tuple(CLASSES), metavar="CLASS",
        help=f"mutants of this class only; may be repeated: {', '.join(CLASSES)}")  # fmt: skip
    add("--generated", action="store_true", help="mutants that operators make, instead of the hand-written ones")
    add("--sample", type=int, metavar="N", help="run N of them, operators taking turns")
    add("--seed", type=int, default=0, metavar="N", help="seed of the sample (default: 0)")
    add("--jobs", type=int, default=default_jobs(), metavar="N", help="processes (default: one a CPU)")
    add("--report", type=Path, metavar="PATH", help="write the JSON result here; with several archs, out.ARCH.json")
    add("--resume", action="store_true", help="take up what an earlier run of the same sources has left")
    add("--state", type=Path, default=STATE, metavar="PATH", help=f"where results are kept meanwhile ({STATE})")
    add("--every-case", action="store_true", help="also run the cases after the first that kills: a fuller matrix")
    add("--matrix", action="store_true", help="print the kill matrix, mutant by check")
    add("--min-kill-rate", type=_share, metavar="SHARE",
        help=f"least share killed (default: {MIN_KILL_RATE} of the corpus, 0 of generated mutants)")  # fmt: skip
    add("--max-wrong-check", type=int, default=MAX_WRONG_CHECK, metavar="N",
        help="most mutants killed by another check than their own (default: %(default)s)")  # fmt: skip
    add("--corpus", type=Path, default=CORPUS, metavar="DIR", help="folder of the mutants")
    add("--op", default="hcgr", metavar="NAME", help="operation whose cases are run (default: hcgr)")
    add_executor(p)
    add("--list", action="store_true", help="list the selected mutants, and stop")
    add("--table", type=Path, nargs="+", metavar="RESULT", 
        help="print the kill matrix of results in Markdown, by class or with --matrix by mutant, and stop")  # fmt: skip
    return p


def default_jobs() -> int:
    """One process for each CPU that this process may use."""
    from validation.cli import default_jobs as per_cpu

    return per_cpu()


def main(argv: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run the command; returns the exit code. ``root`` is for tests."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return FRAME.run(lambda: _run(arguments, root))


def _run(arguments: list[str], root: Path) -> int:
    options = parser().parse_args(arguments)
    if options.table:
        table = summary.mutant_table if options.matrix else summary.class_table
        print(*table([_result(path) for path in options.table]), sep="\n")
        return 0
    _check(options)
    arches = [arch for arch in devices.ARCHES if arch in options.arch or "all" in options.arch]
    corpus = load_corpus(options.corpus)
    chosen = _selected(corpus, options, root)
    if options.list:
        for mutant in chosen:
            if not arches or set(arches) & set(mutant.archs):
                print(f"{mutant.name}: {mutant.title} [{', '.join(mutant.archs)}; {', '.join(mutant.checks) or 'any'}]")
        return 0
    if not arches:
        raise UsageError(f"--arch is needed: {', '.join(devices.ARCHES)} or all")
    packages = take_part(options.op)
    paths = report_paths(options.report, arches) if options.report else {}
    for path in paths.values():
        probe(path)
    previous = signal.signal(signal.SIGTERM, _terminated)
    try:
        with opened(options.executor, options.jobs, options.scheduler, packages) as executor:
            shared = (corpus, chosen, options, arguments, root, executor)
            codes = [_try_arch(arch, paths.get(arch), *shared) for arch in arches]
    except ExecutorError as error:
        FRAME.complain(f"INCONCLUSIVE: {error}")
        return EXIT_CODES["INCONCLUSIVE"]
    finally:
        signal.signal(signal.SIGTERM, previous)
    return next((EXIT_CODES[name] for name in ("FAIL", "INCONCLUSIVE") if EXIT_CODES[name] in codes), 0)


def take_part(operation: str) -> tuple[str, ...]:
    """The packages whose sources decide an outcome: this project's, the operation's, and the one that defines it."""
    reference = registered_operations().get(operation, operation)
    defining = reference.partition(":")[0].partition(".")[0]
    return tuple(dict.fromkeys((*PACKAGES, *load_operation(operation).packages, defining)))


def _check(options: argparse.Namespace) -> None:
    """Refuse what would be ignored."""
    check_executor(options)
    if options.jobs < 1 or (options.sample is not None and options.sample < 1):
        raise UsageError("--jobs and --sample must be at least 1")
    if options.max_wrong_check < 0:
        raise UsageError("--max-wrong-check must be at least 0")
    if options.mutant and (options.classes or options.sample is not None):
        raise UsageError("--mutant names mutants one by one and does not go together with --class or --sample")
    if options.generated and options.classes:
        raise UsageError("--class chooses hand-written mutants and does not go together with --generated")


def _result(path: Path) -> JsonDict:
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        raise UsageError(f"{path}: no JSON result of {COMMAND} --report: {error}") from error
    broken = result.problems(document, date.today())
    if broken:
        raise UsageError(f"{path}: no result of {COMMAND} --report: {broken[0]}")
    return dict(document)


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _selected(corpus: Corpus, options: argparse.Namespace, root: Path) -> list[Mutant]:
    """The mutants that the options ask for, whatever the arch."""
    wanted = set(options.mutant)
    made: list[Mutant] = []
    if options.generated or any(name.startswith("generated/") for name in wanted):
        made = generate(load_targets(corpus.names, options.corpus), root)
    known = [*corpus.mutants, *made]
    unknown = wanted - {mutant.name for mutant in known} - {corpus.sentinel.name}
    if unknown:
        raise UsageError(f"no mutant is called {', '.join(sorted(unknown))} (see {COMMAND} --list)")
    if wanted:
        return [mutant for mutant in (*known, corpus.sentinel) if mutant.name in wanted]
    if options.generated:
        return sample(made, options.sample, options.seed)
    hand = [m for m in corpus.mutants if not options.classes or m.defect_class in options.classes]
    return sample(hand, options.sample, options.seed)


def _try_arch(arch: str, *arguments: Any) -> int:
    """One arch that proves nothing must not keep the next from being run."""
    try:
        return _run_arch(arch, *arguments)
    except EngineError as error:
        FRAME.complain(f"{arch}: INCONCLUSIVE: {error}")
        return EXIT_CODES["INCONCLUSIVE"]


def _run_arch(
    arch: str,
    path: Path | None,
    corpus: Corpus,
    chosen: Sequence[Mutant],
    options: argparse.Namespace,
    arguments: Sequence[str],
    root: Path,
    executor: Executor,
) -> int:
    begun, started = time.monotonic(), datetime.now(UTC)
    console, today = Console(), date.today()
    sources = sources_digest(root)
    settings = Settings(arch, options.jobs, options.op, root, options.every_case, today, executor=executor)
    jobs = executor.jobs  # of a cluster's, some may be lost
    others = digest([name for name in take_part(options.op) if name not in PACKAGES])  # not below the root
    state = State(options.state, f"{sources} {options.op} {others}", arch, options.resume)
    mutants = [mutant for mutant in chosen if arch in mutant.archs]
    outcome = run(mutants, corpus.sentinel, settings, state, console)
    default = DefaultRun(options.op, arch)
    for mutant, record in zip((corpus.sentinel, *mutants), (outcome.sentinel, *outcome.mutants), strict=True):
        record["in_default_run"] = default.sees(mutant, record)
        record["replay"] = replay(mutant, arch, _found_by(options))
    generated = all(mutant.generated for mutant in mutants)
    header: JsonDict = {
        "arch": arch,
        "command": [COMMAND, *arguments],
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "duration_s": round(time.monotonic() - begun, 2),
        "jobs": jobs,
        "executor": outcome.executor,
        "environment": describe(),
        "source": source_state(Path(devices.__file__).parents[1]) | {"digest": sources},
        "selection": _selection(options, generated),
    }
    least = options.min_kill_rate
    if least is None:
        least = 0.0 if generated else MIN_KILL_RATE
    document = result.build(header, outcome, least, options.max_wrong_check, today)
    console.end(document, options.matrix)
    if path is not None:
        result.write(path, document, today)
        console.say(f"  result: {path}")
    return int(document["verdict"]["exit_code"])


def _found_by(options: argparse.Namespace) -> list[str]:
    """The options without which a mutant of this run is not found, or judged by other cases."""
    given = {"--corpus": options.corpus, "--op": options.op}
    return [
        part for name, value in given.items() if value != parser().get_default(name[2:]) for part in (name, str(value))
    ]


def _selection(options: argparse.Namespace, generated: bool) -> dict[str, Any]:
    return {
        "mutants": list(options.mutant),
        "classes": list(options.classes),
        "generated": generated,
        "seed": options.seed,
        "sample": options.sample,
        "every_trial": options.every_case,
    }


if __name__ == "__main__":
    sys.exit(main())
