"""Runs the scanner's witnesses in the emulator; a script in a process of its own: ``witness_worker.py ARCH``.

Each of MUTANTS puts a 32-bit product into COMBINE. The scanner reads the broken source; the row that its witness
names is then run, at the stride that it names, and the row before it, on the broken machine code and on the real.
Tensors are as large as the witness says, but only pages that a row touches exist.

Writes a JSON list: the witness, the stride's name, and memcheck's findings by (broken or real, row).
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

#: Mutant to the tensor whose row stride its product takes.
MUTANTS = {
    "int32-overflow/combine-residual": "residual",
    "int32-overflow/combine-y": "block_output",
    "int32-overflow/combine-injection": "injection",
}
KERNEL, FILE = "hcgr.kernels.combine", "hcgr/kernels/combine.py"
HC = 2


def run_row(row: int, strided: str, stride: int, hs: int) -> list[str]:
    """memcheck's findings for the workgroup of one row, with `strided`'s rows that far apart."""
    import torch

    from hcgr import dispatch
    from hcgr.plan import CombinePlan
    from validation.emulator import emulate

    widths = {"residual": HC * hs, "block_output": hs, "injection": HC, "r2": HC * hs}
    tensors = {}
    for name, width in widths.items():
        apart = stride if name == strided else width
        whole = torch.empty((row + 1) * apart, dtype=torch.bfloat16)
        tensors[name] = whole.as_strided((row + 1, width), (apart, 1))
        tensors[name][row] = 1.0
    strides = [tensors[name].stride(0) for name in ("residual", "block_output", "injection")]
    plan = CombinePlan(HC, hs, 1)
    assert plan.column_tiles == 1
    with emulate(checks=("memcheck",), workgroups=[(row, 0, 0)]) as session:
        dispatch.launch(KERNEL, plan, tensors, (row + 1, *strides, plan.workgroups(row + 1)))
    return [str(finding) for finding in session.findings]


def confirm(name: str, strided: str, number: int) -> dict[str, Any]:
    """Scan one mutant, then run its witness."""
    from validation.mutation.edit import ROOT, edited_sources, variant
    from validation.mutation.manifest import load_corpus
    from validation.width_scan import scan_source

    mutant = next(mutant for mutant in load_corpus().mutants if mutant.name == name)
    (finding,) = scan_source(edited_sources(mutant.changes)[FILE], str(ROOT / FILE)).findings
    row, stride = finding.witness["row"], finding.witness[f"{strided}_stride"]
    ran: dict[str, list[str]] = {}
    for kind, changes in (("broken", mutant.changes), ("real", ())):
        hs = 512 * (1 + 2 * number + (kind == "real"))  # a plan of its own: dispatch keeps what it has compiled
        with variant(changes, reload=(KERNEL,)):
            ran |= {f"{kind} {at}": run_row(at, strided, stride, hs) for at in (row - 1, row)}
    return {"witness": finding.witness, "stride": f"{strided}_stride", "ran": ran}


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([confirm(*item, number) for number, item in enumerate(MUTANTS.items())], sys.stdout)


if __name__ == "__main__":
    main()
