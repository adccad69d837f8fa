"""A fake operation and fake devices: every way in which a case can end, without a kernel or an emulator."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.validation import protocol_fakes
from validation.cases import comparison
from validation.devices import Claim, receipt
from validation.grid import Axis, AxisValue, Case, Grid
from validation.operation import ContractCall, ContractRow, CostCase, CostModel, EntryPoint, Operation, SkipCase

LEVEL = "emulated"
COVERS = {"checks": ["fake"], "schedules": "none", "memory": "none"}
ME = "validation_fakes"

FINDING = {
    "check": "memcheck",
    "message": "store outside of every allocation",
    "kernel": "fake",
    "workgroup": [0, 0, 0],
    "wave": 0,
    "lane": 3,
    "instruction": "global_store_dword v[0:1], v2, off",
    "asm_line": 12,
    "source_file": "fake_kernel.py",
    "source_line": 34,
    "argument": "out",
    "index": [4, 0],
    "occurrences": 2,
    "via": None,
}

ASM = """\t.text
fake_kernel:
\ts_load_dword s0, s[0:1], 0x0 ; a comment
.LBB0_1:
\tv_mov_b32 v0, s0
\ts_endpgm
.Lfunc_end0:
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     4
    .group_segment_fixed_size: 1024
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 256
    .name:           fake_kernel
    .private_segment_fixed_size: {scratch}
    .sgpr_count:     16
    .sgpr_spill_count: 0
    .vgpr_count:     24
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa-unknown-{arch}:sramecc+:xnack-
...
\t.end_amdgpu_metadata
"""


class FakeSession:
    """Launches and findings that the fake driver puts there."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []

    @property
    def emulated(self) -> FakeSession:
        return self


class FakeBench:
    """No memory; one session at a time."""

    level = LEVEL
    sparse = True
    whole = False

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.current: FakeSession | None = None
        self.damage: list[str] = []

    @contextmanager
    def session(self, workgroups: Any = None, **options: Any) -> Iterator[FakeSession]:
        self.current = FakeSession()
        yield self.current

    @contextmanager
    def watch_code(self, edit: Any = None, run: bool = True) -> Iterator[dict[str, Any]]:
        yield {}

    def guard_damage(self) -> list[str]:
        return self.damage

    def blame(self, error: BaseException) -> tuple[str, list[dict[str, Any]]] | None:
        return (str(error), [FINDING]) if isinstance(error, MemoryFaultError) else None

    def close(self) -> None:
        pass

    def launch(self, workgroups_run: int = 2, kernel: str = "fake", arguments: dict[str, str] | None = None) -> None:
        assert self.current is not None
        seen = receipt(kernel, self.arch, (2, 1, 1), (64, 1, 1), workgroups_run, 100, arguments)
        self.current.launches.append(seen)


class MemoryFaultError(Exception):
    """Stands for the emulator's fatal finding."""


def claim(arch: str) -> Claim:
    return Claim("fake", LEVEL, True, "always there")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch}


def open_bench(arch: str) -> FakeBench:
    return FakeBench(arch)


class FakeDriver:
    """Behaves as the case's ``mode`` says."""

    def prepare(self, case: Case, bench: FakeBench, seed: int) -> dict[str, Any]:
        mode = case.params["mode"]
        if mode == "skip":
            raise SkipCase("this device has no such thing")
        if mode == "broken_harness":
            raise RuntimeError("the oracle cannot be built")
        return {"mode": mode, "bench": bench, "seed": seed}

    def workgroups(self, inputs: dict[str, Any]) -> None:
        return None

    def run(self, inputs: dict[str, Any]) -> str:
        getattr(self, f"_{inputs['mode']}", self._good)(inputs["bench"])
        return str(inputs["mode"])

    def check(self, inputs: dict[str, Any], outputs: str) -> list[dict[str, Any]]:
        if outputs == "uncompared":
            return []
        good = outputs != "wrong"
        return [
            comparison(
                "out",
                "bound",
                good,
                "within bound" if good else "error/bound 7.5 at [1, 2]",
                elements=8,
                max_ratio=0.5 if good else 7.5,
                worst_index=[1, 2],
            )
        ]

    def build(self, case: Case, arch: str) -> list[str]:
        mode = case.params["mode"]
        if mode == "abort":
            self._abort(None)
        if mode == "complains":
            os.write(2, b"<unknown>:0: error: local memory limit exceeded (70000) in function 'fake'\n")
        return [ASM.format(arch=arch, scratch=64 if mode == "wrong" else 0)]

    def contract(self, row: str, bench: FakeBench) -> ContractCall:
        import torch

        out = torch.zeros(4, 3)
        view = out[:, :2]

        def call() -> Any:
            if row == "scribbles":
                out[0, 2] = 1.0
            if row == "launches":
                bench.launch()
            if row == "empty_call":
                return 5
            if row != "accepts":
                raise (TypeError if row == "wrong_type" else ValueError)(
                    "out must be [4, 2] float32, got [4, 3]" if row != "mute" else "bad"
                )
            return None

        return ContractCall(call, (("out", view),), lambda result: None if result == 5 else f"returned {result}")

    def _good(self, bench: FakeBench) -> None:
        bench.launch()

    def _abort(self, bench: Any) -> None:
        os.write(2, b"LLVM ERROR: Cannot select: intrinsic %llvm.fake\n")
        os.abort()

    def _hang(self, bench: FakeBench) -> None:
        while True:
            time.sleep(0.05)

    def _garbage(self, bench: FakeBench) -> None:
        print('{"id": "forged", "value": {"status": "pass", "reason": ""}}', flush=True)
        os.write(1, b"\x00\xff garbage\n" * 1000)
        print("noise", file=sys.stderr, flush=True)
        bench.launch()

    def _raises(self, bench: FakeBench) -> None:
        raise RuntimeError("a bug of the harness or the compiler")

    def _refuses(self, bench: FakeBench) -> None:
        import validation_fakes_op

        validation_fakes_op.refuse()

    def _finding(self, bench: FakeBench) -> None:
        bench.launch()
        assert bench.current is not None
        bench.current.findings.append(FINDING)

    def _fault(self, bench: FakeBench) -> None:
        raise MemoryFaultError("fake: memory fault")

    def _guard(self, bench: FakeBench) -> None:
        bench.launch()
        bench.damage.append("out")

    def _straight(self, bench: FakeBench) -> None:
        bench.launch(kernel="fake_straight_r4")

    def _astray(self, bench: FakeBench) -> None:
        bench.launch(kernel="fake_other_r4")

    def _unlaunched(self, bench: FakeBench) -> None:
        pass

    def _partial_launch(self, bench: FakeBench) -> None:
        bench.launch(workgroups_run=0)

    def _empty_launched(self, bench: FakeBench) -> None:
        bench.launch()

    def _empty(self, bench: FakeBench) -> None:
        pass

    def _exits(self, bench: FakeBench) -> None:
        os._exit(0)

    def _hungry(self, bench: FakeBench) -> None:
        held = bytearray(400 << 20)
        time.sleep(30)
        del held


COST_ROW = {
    "case": "steady",
    "arch": "gfx942",
    "path": "straight",
    "m": 8,
    "shape": [4, 512, 32, 48],
    "fold": True,
    "method": "whole call measured",
    "rows_measured": [8],
    "kernels": ["fake_straight_r4"],
    "lines": {"residual": {"read": 64, "written": 0}},
    "bytes_moved": 8192,
    "bytes_compulsory": 8000,
    "ratio": 1.024,
    "limit": None,
    "budget": None,
    "weight_lines_reread": 0,
    "blocks_agree": None,
    "mfma": 16,
    "mfma_due": 16,
    "mfma_padding": {"k1 rows": 1.0},
    "work": {"bytes_requested": 9000, "valu": 400, "lds_cycles": 50},
    "vgprs": 100,
    "lds_bytes": 1024,
    "lds_limit": 65536,
    "spills": 0,
    "scratch_bytes": 0,
    "part": "MI300X",
    "projection": {"kind": "projection", "memory_us": 2.0, "matrix_us": 1.0, "total_us": 2.0},
    "published_us": None,
    "five_stage": {
        "kernels": [f"fake_stage_{i}" for i in range(5)],
        "bytes_moved": 16384,
        "ratio": 2.048,
        "mfma": 32,
        "projection": {"kind": "projection", "memory_us": 4.0, "matrix_us": 2.0, "total_us": 4.0},
    },
}


class FakeCostDriver:
    """Measures what the case's name says."""

    def measure(self, case: CostCase, bench: FakeBench) -> dict[str, Any]:
        if case.name == "broken":
            raise RuntimeError("the counter is broken")
        if case.name == "refused":
            import validation_fakes_op

            validation_fakes_op.refuse()
        if case.name == "invented":
            return COST_ROW | {"case": case.name, "arch": bench.arch, "kernels": ["fake_never_launched"]}
        if case.name == "unnamed":
            return COST_ROW | {"case": case.name, "arch": bench.arch, "kernels": []}
        with bench.session():
            bench.launch(kernel="fake_straight_r4")
        return COST_ROW | {"case": case.name, "arch": bench.arch}

    def judge(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        good = row["case"] != "dear"
        return [comparison("traffic", "cost", good, "as ever" if good else "1.5 x compulsory, at most 1.2")]


def cost_model(*names: str) -> CostModel:
    return CostModel(lambda arch: tuple(CostCase(name, {}, "") for name in names), f"{ME}:FakeCostDriver")


def grid(*modes: str) -> Grid:
    values = tuple(AxisValue(mode, mode, "production") for mode in modes)
    return Grid((Axis("mode", values), Axis("size", (AxisValue("s1", 1, "tiny", "one row"),))))


def operation(
    *modes: str, rows: tuple[ContractRow, ...] = (), timeout_s: float = 60.0, costs: tuple[str, ...] = ()
) -> Operation:
    entry = EntryPoint(
        "fake",
        "fake_function",
        grid(*modes),
        f"{ME}:FakeDriver",
        rows,
        lambda params: params["mode"],
        lambda params: not params["mode"].startswith("empty"),
        {"scratch_bytes": 0},
        timeout_s,
        lambda params: ("straight",) if params["mode"] in ("straight", "astray") else (),
    )
    paths = {"fake_straight_": "straight", "fake_other_": "other"}
    model = cost_model(*costs) if costs else None
    return Operation("fake", "A fake operation", ("validation_fakes_op",), (entry,), paths, model)


def row(name: str, error: str | None = "ValueError", mentions: tuple[str, ...] = ("out", "[4, 2]")) -> ContractRow:
    return ContractRow(name, f"row {name}", error, mentions)


GOOD = replace(
    operation("good", "good2", "garbage", rows=(row("refuses"), row("empty_call", None, ())), costs=("steady",)),
    protocol=(protocol_fakes.scenario("good", protocol_fakes.TEETH["caught"]),),
)
BAD = operation(
    "good",
    "wrong",
    "abort",
    "garbage",
    "raises",
    "refuses",
    "finding",
    "fault",
    "guard",
    "unlaunched",
    "partial_launch",
    "empty",
    "empty_launched",
    "exits",
    "uncompared",
    "skip",
    "broken_harness",
    "complains",
    rows=(
        row("refuses"),
        row("accepts"),
        row("mute"),
        row("wrong_type"),
        row("scribbles"),
        row("launches"),
        row("empty_call", None, ()),
    ),
    costs=("steady", "dear", "broken", "refused"),
)
PATHS = operation("straight", "astray", "good", "empty")
HANGING = operation("good", "hang", "good2", timeout_s=1.0)
SLOW = operation("hang", timeout_s=600.0)
HUNGRY = operation("good", "hungry")
NOTHING = operation("skip")
