"""Run programs for an architecture, write JSON: ``python -m tests.triton_programs.worker --arch gfx950 [NAME...]``."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from . import PROGRAMS

SEED = 20250521


def run_program(name: str, arch: str) -> dict[str, Any]:
    """Run one program: its cases and findings, or the error that stopped it."""
    from .driver import Device

    started = time.process_time()
    device = Device(arch)
    cases: list[dict[str, Any]] = []
    error = None
    try:
        module = importlib.import_module(f"{__package__}.{name}")
        cases = [asdict(case) for case in module.run(torch.Generator().manual_seed(SEED), device)]
    except Exception:
        error = traceback.format_exc()
    return {
        "program": name,
        "cases": cases,
        "error": error,
        "launches": device.launches,
        "findings": device.findings,
        "mnemonics": sorted(device.mnemonics),
        "seconds": time.process_time() - started,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TRITON_CACHE_DIR"] = cache
        for name in options.names or PROGRAMS:
            result = run_program(name, options.arch)
            results.append(result)
            bad = result["error"] or [c for c in result["cases"] if not c["passed"]] or result["findings"]
            timing = f"{result['seconds']:.2f}s {result['launches']} launches {len(result['cases'])} cases"
            print(name, timing, bad or "ok", file=sys.stderr, flush=True)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
