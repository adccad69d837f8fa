"""What a receipt of a launch cannot say, whoever wrote it, what it must say, and how it is shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from validation.launched import lacking
from validation.report.shards import chosen_cases

#: Lanes of a workgroup at most, on gfx9 (LLVM: AMDGPU ISA info, maximum flat workgroup size).
MAX_LANES = 1024
#: The fact of a case that holds the shapes due, see :attr:`validation.operation.EntryPoint.shapes`.
_SHAPES = "shapes"
#: Launches that are written out on a terminal.
MOST_LISTED = 12


def impossible(launch: Mapping[str, Any], arch: str, level: str) -> Iterator[str]:
    """Every way in which one receipt contradicts the arch, the evidence ``level`` of its stage, or itself.

    The emulator counts what it executes and a workgroup executes one instruction at least, so an emulated receipt
    without a count, or with fewer instructions than workgroups, was not written by it.
    """
    grid, block, ran = math.prod(launch["grid"]), math.prod(launch["block"]), launch["workgroups_run"]
    if launch["arch"] != arch:
        yield f"launched code for {launch['arch']} in a report on {arch}"
    if ran > grid:
        yield f"a receipt of {launch['kernel']} has {ran} workgroups of a grid of {grid}"
    if ran and not 1 <= block <= MAX_LANES:
        yield f"a receipt of {launch['kernel']} has workgroups of {block} lanes, 1 to {MAX_LANES} are possible"
    if level == "emulated" and (launch["instructions"] is None or launch["instructions"] < ran):
        yield (
            f"a receipt of {launch['kernel']} has {launch['instructions']} instructions in {ran} workgroups, "
            "which the emulator cannot have counted"
        )


def speaks_of_shapes(records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a report was made when cases named the shapes that their launches must have seen: one of them does."""
    return any(_SHAPES in record["facts"] for record in records)


def shapeless(case: Mapping[str, Any], level: str) -> Iterator[str]:
    """Every way in which the receipts of a case that passed lack the shapes that were due, in a report that speaks of
    them.

    The emulator sees every argument, so under its evidence a launch of such a case without any was not written by it.
    """
    due = case["facts"].get(_SHAPES)
    if due is None:
        yield "passes without a word on the shapes that its launches were due to see"
        return
    yield from (f"passes, and yet {what}" for what in lacking(due, case["launches"]))
    for launch in case["launches"] if due and level == "emulated" else ():
        if "arguments" not in launch:
            yield f"a receipt of {launch['kernel']} has no arguments, which the emulator would have seen"


def launch_line(launch: Mapping[str, Any]) -> str:
    """One receipt in one line: kernel, grid, and what lay behind its pointers."""
    x, y, z = launch["grid"]
    seen = launch.get("arguments")
    arguments = "arguments not seen" if seen is None else ", ".join(f"{name} {what}" for name, what in seen.items())
    ran = f"{launch['workgroups_run']} of {x} x {y} x {z} workgroups"
    return f"{launch['kernel']}, {ran}: {arguments or 'no pointer'}"


def shape_lines(report: Mapping[str, Any]) -> list[str]:
    """How many cases have the shapes that they name in their receipts, in one line; none where no case names any."""
    cases = [case for stage in report["stages"] for case in stage["cases"]]
    naming = [case for case in cases if case["facts"].get(_SHAPES) and case["launches"]]
    seen = [case for case in naming if not any(lacking(case["facts"][_SHAPES], case["launches"]))]
    launches = sum(len(case["launches"]) for case in seen)
    shown = f"launched with the shapes that they name: {len(seen)} of {len(naming)} cases ({launches} receipts)"
    return [shown] if naming else []


def launch_lines(report: Mapping[str, Any]) -> list[str]:
    """The first launches of the correctness cases that were asked for by name; none of a run of whole stages."""
    named = chosen_cases(report["selection"])
    cases = [case for stage in report["stages"] for case in stage["cases"] if case["id"] in named]
    launches = [launch for case in cases if case["stage"] == "correctness" for launch in case["launches"]]
    lines = [f"launched {launch_line(launch)}" for launch in launches[:MOST_LISTED]]
    hidden = len(launches) - MOST_LISTED
    return [*lines, f"launched {hidden} more, listed in the report"] if hidden > 0 else lines
