"""Run programs in this process and write JSON: ``python -m tests.flydsl_programs.worker [--out FILE] [NAME...]``.

The architecture and the backend come from the environment (``ARCH``, ``FLYDSL_GPU_ARCH``,
``FLYDSL_COMPILE_BACKEND``), as for any FlyDSL program. ``--isa`` records the ISA of every launch instead
of running it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from validation.emulator import emulate
from validation.emulator.flydsl_plugin import set_launcher

from . import PROGRAMS

SEED = 20250521


CHECKS = ("memcheck", "initcheck", "racecheck", "synccheck")


def run_program(name: str, schedule: str) -> dict[str, Any]:
    """Run one program under `CHECKS`: its cases and findings, or the error that stopped it."""
    started = time.perf_counter()
    cases: list[dict[str, Any]] = []
    error, relies_on_clamp = None, False
    with emulate(checks=CHECKS, schedule=schedule) as session:
        try:
            module = importlib.import_module(f"{__package__}.{name}")
            relies_on_clamp = getattr(module, "RELIES_ON_CLAMP", False)
            cases = [asdict(case) for case in module.run(torch.Generator().manual_seed(SEED))]
        except Exception:
            error = traceback.format_exc()
    return {
        "program": name,
        "cases": cases,
        "error": error,
        "launches": len(session.launches),
        # A clamped access is a finding unless its site relies on the clamp, as some of these programs do.
        "findings": [str(f) for f in session.findings if not (relies_on_clamp and f.check == "clamp")],
        "seconds": time.perf_counter() - started,
    }


def record_isa(folder: Path) -> None:
    """Replace the emulator by one that writes each launched ISA text to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    seen: dict[str, str] = {}

    def record(launch: Any) -> None:
        if launch.asm in seen.values():
            return
        stem, count = launch.kernel, 0
        while stem in seen:
            count += 1
            stem = f"{launch.kernel}.{count}"
        seen[stem] = launch.asm
        (folder / f"{stem}.s").write_text(launch.asm)

    set_launcher(record)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--isa", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--schedule", default="lockstep")
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    if options.isa:
        record_isa(options.isa)
    results = []
    for name in options.names or PROGRAMS:
        results.append(run_program(name, options.schedule))
        bad = results[-1]["error"] or [c for c in results[-1]["cases"] if not c["passed"]] or results[-1]["findings"]
        print(name, f"{results[-1]['seconds']:.2f}s", bad or "ok", file=sys.stderr, flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
