"""``hcgr-validate``: the command line of the validator."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from validation import devices
from validation.base.git import GitError
from validation.base.revision import Base, BaseError, resolve_base
from validation.base.run import PolicyError, prepared
from validation.cases import COMMAND
from validation.command_line import CommandLine, Parser, UsageError
from validation.executors import ExecutorError, opened
from validation.executors.options import add_executor, check_executor
from validation.operation import JsonDict, UnknownOperationError, load_operation, registered_operations
from validation.report import console, show
from validation.report.check import InvalidReportError
from validation.report.shards import Shard, ShardError
from validation.report.verdict import EXIT_CODES, EXIT_INTERRUPTED
from validation.report.writer import ReportPathError, probe, report_paths, write_report
from validation.runner import Plan, SelectionError, run_arch
from validation.stages import STAGES, stage

_DESCRIPTION = """\
Validate an operation's GPU kernels and say on which evidence.

The kernels are compiled for the arch and their machine code is executed: on a GPU of that arch where there is one
(evidence 'runtime'), else in this project's emulator on the CPU ('emulated'). Where nothing can execute them they
are only compiled ('compile-only'), which settles nothing. Results are compared with a float32 oracle under bounds
derived from the arithmetic, while checkers look for bad addresses and uninitialised reads."""

_EPILOG = """\
stages:
{stages}

examples:
  hcgr-validate --arch gfx942 --report out.json     one arch, one report
  hcgr-validate --arch all --report out.json        writes out.gfx942.json and out.gfx950.json
  hcgr-validate --list                              every case, and why it is there
  hcgr-validate --arch gfx950 --skip contract       everything but the error contract (a partial verdict)
  hcgr-validate --arch gfx942 --case ID --seed N    one case alone, as a failing case prints it
  hcgr-validate --arch gfx942 --base origin/main --report out.json    what a change did, and what it did to the judge
  hcgr-validate --arch gfx942 --shard 2/4 --report part2.json    a quarter; join all with hcgr-report merge
  hcgr-validate --arch gfx942 --executor dask --scheduler tcp://host:8786    its cases on the workers of a Dask cluster

exit codes:
  0    PASS          every stage that was selected passed, with kernels executed
  1    FAIL          the code under test is at fault
  2    usage         bad arguments; nothing was run
  3    INCONCLUSIVE  nothing was proved: not executed, our own failure, or less evidence than --require asks for
  130  interrupted   no report was written for the arch that was running
With several archs the exit code is that of the worst verdict."""


#: What can be written beside the report, as :data:`validation.report.show.FORMATS` names it.
DERIVED = {"junit": "JUnit XML", "sarif": "SARIF", "html": "an HTML page"}
FRAME = CommandLine(COMMAND, (UnknownOperationError, SelectionError, ReportPathError, BaseError, PolicyError, GitError))


def _whole(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number < 1 << 63:
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 to 2^63-1 (got {text!r})")
    return number


def _positive(text: str) -> int:
    number = _whole(text)
    if not 1 <= number <= 1024:
        raise argparse.ArgumentTypeError(f"must be from 1 to 1024 (got {text!r})")
    return number


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ShardError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _arch(text: str) -> str:
    if text not in (*devices.ARCHES, "all"):
        raise argparse.ArgumentTypeError(f"unknown arch {text!r} (known: {', '.join(devices.ARCHES)}, all)")
    return text


def _stage(text: str) -> str:
    if text not in STAGES:
        raise argparse.ArgumentTypeError(f"unknown stage {text!r} (stages: {', '.join(STAGES)})")
    return text


def default_jobs() -> int:
    """One worker for each CPU that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parser() -> argparse.ArgumentParser:
    """The argument parser; its ``error`` raises :class:`UsageError`."""
    stages = "\n".join(f"  {name:<12} {stage(name).TITLE}: {_first_line(name)}" for name in STAGES)
    p = Parser(
        prog=COMMAND,
        description=_DESCRIPTION,
        epilog=_EPILOG.format(stages=stages),
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "--arch",
        action="append",
        type=_arch,
        metavar="ARCH",
        help=f"{', '.join(devices.ARCHES)} or all; may be repeated. One report for each arch",
    )
    p.add_argument(
        "--report",
        type=Path,
        metavar="PATH",
        help="write the JSON report here, whole or not at all; with several archs, out.json becomes "
        "out.ARCH.json. Without it, only the table is shown",
    )
    for name, spelt in DERIVED.items():
        p.add_argument(
            f"--{name}",
            type=Path,
            metavar="PATH",
            help=f"also write the report as {spelt} here; named like --report with several archs",
        )
    p.add_argument(
        "--seed", type=_whole, default=0, metavar="N", help="seed of the grid and of every input (default: 0)"
    )
    p.add_argument(
        "--jobs",
        type=_positive,
        default=default_jobs(),
        metavar="N",
        help="worker processes (default: one a CPU, here %(default)s)",
    )
    p.add_argument(
        "--only", action="append", type=_stage, default=[], metavar="STAGE", help="run this stage only; may be repeated"
    )
    p.add_argument(
        "--skip",
        action="append",
        type=_stage,
        default=[],
        metavar="STAGE",
        help="leave this stage out; may be repeated",
    )
    p.add_argument(
        "--require",
        choices=("runtime", "emulated", "compile-only"),
        metavar="LEVEL",
        help="the weakest evidence to accept: runtime, emulated or compile-only; with less, the verdict "
        "is INCONCLUSIVE",
    )
    p.add_argument(
        "--case",
        action="append",
        default=[],
        metavar="ID",
        help="replay this case alone; may be repeated: these, those of one stage in the order given",
    )
    p.add_argument(
        "--shard",
        type=_shard,
        metavar="i/n",
        help="run every n-th case of each stage, from the i-th on; the verdict is partial, and hcgr-report merge "
        "joins the reports of all n",
    )
    p.add_argument(
        "--grid",
        choices=("pairwise", "full"),
        default="pairwise",
        help="how much of the shape grid: each pair of values once, or every combination (hours); default: pairwise",
    )
    p.add_argument(
        "--level",
        choices=("default", "full"),
        default="default",
        help="default: chosen workgroups (first, middle, last) stand for those of a large call; full: run all of "
        "them, wherever memory allows",
    )
    p.add_argument(
        "--op",
        default="hcgr",
        metavar="NAME",
        help=f"operation under test: {', '.join(registered_operations())}, or module:attribute (default: hcgr)",
    )
    p.add_argument(
        "--mutants",
        action="append",
        type=Path,
        default=[],
        metavar="RESULT",
        help="a result of hcgr-mutate to show and judge in the report; may be repeated, one for each arch",
    )
    p.add_argument(
        "--base",
        metavar="REV",
        help="also run the same cases on the code of this commit: what is red there too is not charged to the change, "
        "and what the change did to the judge is a finding (policy)",
    )
    p.add_argument(
        "--accept-policy",
        action="append",
        default=[],
        metavar="NAME",
        help="with --base: this policy finding does not keep the verdict from PASS; may be repeated",
    )
    p.add_argument(
        "--calibrate",
        action="store_true",
        help="also run the instruction vectors and the selected kernel cases both on a GPU of the arch and in the "
        "emulator, and report each difference; needs such a GPU and a source checkout",
    )
    add_executor(p)
    p.add_argument("--list", action="store_true", help="list stages and cases with their reasons, and stop")
    return p


def _first_line(name: str) -> str:
    text = (sys.modules[STAGES[name]].__doc__ or "").strip().splitlines()[0]
    return text[:1].lower() + text[1:]


def main(argv: Sequence[str] | None = None, device_modules: tuple[str, ...] = devices.DEVICES) -> int:
    """Run the command; returns the exit code. ``device_modules`` is for tests."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return FRAME.run(lambda: _run(arguments, device_modules))


def _run(arguments: list[str], device_modules: tuple[str, ...]) -> int:
    options = parser().parse_args(arguments)
    plan = Plan(
        operation=load_operation(options.op),
        operation_name=options.op,
        seed=options.seed,
        jobs=options.jobs,
        only=tuple(options.only),
        skip=tuple(options.skip),
        cases=tuple(options.case),
        cover=options.grid,
        level=options.level,
        required=options.require,
        shard=options.shard,
        command=(COMMAND, *arguments),
        device_modules=device_modules,
        mutants=tuple(str(path.resolve()) for path in options.mutants),
        calibrate=options.calibrate,
    )
    if plan.calibrate and plan.shard:
        raise UsageError("--calibrate is for a whole run and does not go together with --shard")
    if plan.cases and (plan.only or plan.skip):
        raise UsageError("--case runs the cases it names alone and does not go together with --only or --skip")
    if plan.cases and plan.shard:
        raise UsageError("--case runs the cases it names alone and does not go together with --shard")
    check_executor(options)
    looked_at = _arches(options.arch) if options.arch else devices.ARCHES[:1]
    plan.check(looked_at)
    if options.accept_policy and not options.base:
        raise UsageError("--accept-policy accepts findings of --base REV, which is not given")
    base = resolve_base(options.base, plan.operation) if options.base else None
    if options.list:
        for line in console.listing(_cases(plan, looked_at[0])):
            print(line)
        return 0
    arches = _arches(options.arch)
    asked = {"report": options.report} | {name: getattr(options, name) for name in DERIVED}
    paths = {kind: report_paths(path, arches) for kind, path in asked.items() if path is not None}
    _check_paths(paths)
    if plan.calibrate and not _calibratable(arches, device_modules):
        return EXIT_CODES["INCONCLUSIVE"]
    return _validate(plan, arches, paths, base, options)


def _calibratable(arches: Sequence[str], device_modules: tuple[str, ...]) -> bool:
    """Whether there is a GPU of each arch to calibrate on; says in one line what is missing."""
    from validation.calibrate.run import CalibrationError, require_gpu  # with it comes NumPy

    try:
        for arch in arches:
            require_gpu(arch, device_modules)
    except CalibrationError as error:
        FRAME.complain(f"{error.args[0]}; nothing was run")
        return False
    return True


def _check_paths(paths: dict[str, dict[str, Path]]) -> None:
    """All that is to be written can be, and nothing overwrites anything else."""
    taken: dict[Path, str] = {}
    for kind, places in paths.items():
        for path in places.values():
            probe(path)
            other = taken.setdefault(path.resolve(), kind)
            if other != kind:
                raise UsageError(f"--{other} and --{kind} both write {str(path)!r}; give each a file of its own")


def _arches(asked: list[str] | None) -> list[str]:
    if not asked:
        raise UsageError(f"--arch is needed: {', '.join(devices.ARCHES)} or all")
    return [arch for arch in devices.ARCHES if arch in asked or "all" in asked]


def _cases(plan: Plan, arch: str) -> list[tuple[str, str, list[tuple[str, Sequence[str]]]]]:
    listed: list[tuple[str, str, list[tuple[str, Sequence[str]]]]] = []
    for name in plan.selected():
        module = stage(name)
        request = plan.request(arch)
        tasks = plan.named(name, arch) if plan.cases else module.plan(request)
        tasks = plan.shard.take(tasks) if plan.shard else tasks
        listed.append((name, module.TITLE, [(task.id, task.why) for task in tasks]))
    return listed


def _validate(
    plan: Plan, arches: list[str], paths: dict[str, dict[str, Path]], base: Base | None, options: argparse.Namespace
) -> int:
    arch = arches[0]
    codes: list[int] = []
    written: list[Path] = []
    previous = signal.signal(signal.SIGTERM, _terminated)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # until now nothing had to be cleared up: validation.entry
    try:
        with contextlib.ExitStack() as stack:
            if base is not None:
                ready = prepared(base, plan.operation, plan.operation_name, plan.seed, options.accept_policy)
                plan = replace(plan, base=stack.enter_context(ready))
            executor = opened(options.executor, plan.jobs, options.scheduler, plan.packages())
            plan = replace(plan, executor=stack.enter_context(executor))
            for arch in arches:
                with console.view() as shown:
                    report = run_arch(plan, arch, shown)
                shown.table(report)
                codes.append(report["verdict"]["exit_code"])
                for kind, places in paths.items():
                    if not _write(kind, places[arch], report):
                        codes.append(EXIT_CODES["INCONCLUSIVE"])
                        break
                    written.append(places[arch])
                    shown.say(f"  {kind}: {places[arch]}")
    except KeyboardInterrupt:
        kept = f"; complete: {', '.join(map(str, written))}" if written else ""
        unwritten = "; no report was written" if paths else ""
        FRAME.complain(f"interrupted while validating {arch}{unwritten}{kept}")
        return EXIT_INTERRUPTED
    except ExecutorError as error:
        FRAME.complain(f"{error}; no report was written for {arch}")
        return EXIT_CODES["INCONCLUSIVE"]
    finally:
        signal.signal(signal.SIGTERM, previous)
    return _worst(codes)


def _write(kind: str, path: Path, report: JsonDict) -> bool:
    """Write a report, or what is derived from it; on failure say so in one line."""
    try:
        if kind == "report":
            write_report(path, report)
        else:
            show.write(path, report, kind)
    except (InvalidReportError, OSError) as error:
        FRAME.complain(f"{path} was not written: {error}")
        return False
    return True


def _terminated(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _worst(codes: Sequence[int]) -> int:
    """FAIL over INCONCLUSIVE over PASS."""
    return next((EXIT_CODES[name] for name in ("FAIL", "INCONCLUSIVE") if EXIT_CODES[name] in codes), 0)


if __name__ == "__main__":
    sys.exit(main())
