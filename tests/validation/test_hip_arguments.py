"""Receipts of the runtime path: what FlyDSL's launchers are handed, told by the marks in a profiler's trace."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
import pytest
import torch

from hcgr.dispatch import Address
from validation.devices import emulator, hip
from validation.devices.hip_arguments import MARK, Memory, by_correlation, watched
from validation.emulator.flydsl_plugin import runtime
from validation.in_process import environment
from validation.launched import lacking
from validation.operation import load_operation

BF16 = torch.bfloat16


def texts(seen: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in seen.items()}


def test_what_arguments_lead_to() -> None:
    memory, rows, weight = Memory(), torch.zeros(5, 16, dtype=BF16), torch.zeros(8)
    memory.add("whole", rows)
    memory.add("rows", rows[:, :8])  # named last
    memory.add("none", rows[:0])
    bare = rows.data_ptr()
    named, foreign = Address.of("residual", rows[:2]), torch.zeros(3)
    assert texts(memory.seen([named, 5, weight, 2.5, None])) == {
        "residual": "bfloat16[2,16]",
        "argument 2": "float32[8]",
    }
    view = "bfloat16[5,8] strides [16,1]"
    assert texts(memory.seen([bare])) == {"rows": view}
    assert texts(memory.seen([ctypes.c_void_p(bare + 32), bare])) == {"rows": f"{view} at byte 32", "rows (1)": view}
    assert texts(memory.seen([flyc.from_c_void_p(fx.BFloat16, bare)])) == {"rows": view}
    assert texts(memory.seen([foreign.data_ptr(), rows[:0], True])) == {}  # nobody can tell what lies there


class Owner:
    def __call__(self, arguments: tuple[Any, ...]) -> str:
        return f"called with {len(arguments)}"


def test_calls_are_noted_and_marked_within_the_block_only() -> None:
    marks: list[str] = []

    @contextmanager
    def mark(name: str) -> Iterator[None]:
        marks.append(name)
        yield

    memory, rows = Memory(), torch.zeros(5, 16, dtype=BF16)
    memory.add("rows", rows)
    with watched(memory, Owner, "__call__", mark) as calls:
        assert Owner()((rows, 5)) == "called with 2"
        assert Owner()((5,)) == "called with 1"
    Owner()((rows,))
    assert (marks, [texts(call) for call in calls]) == ([f"{MARK}0", f"{MARK}1"], [{"rows": "bfloat16[5,16]"}, {}])


def event(cat: str, name: str, ts: float, dur: float = 1.0, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid, "args": args}


def kernel(name: str, correlation: int, ts: float) -> dict[str, Any]:
    return event("kernel", name, ts, tid=7, correlation=correlation, grid=[2, 1, 1], block=[64, 1, 1])


def test_a_kernel_is_told_by_the_call_that_asked_for_it() -> None:
    """Kernels run when they may; torch's own, and what another thread asks for meanwhile, belong to no call."""
    calls: list[Any] = [{"x": "first"}, {"x": "second"}]
    trace = {
        "traceEvents": [
            event("user_annotation", f"{MARK}0", 10, 10),
            event("user_annotation", f"{MARK}1", 30, 10),
            event("user_annotation", "something else", 0, 100),
            event("gpu_user_annotation", f"{MARK}1", 0, 100, tid=1),
            event("cuda_runtime", "hipModuleLaunchKernel", 12, correlation=101),
            event("cuda_runtime", "hipModuleLaunchKernel", 15, correlation=102),
            event("cuda_runtime", "hipModuleLaunchKernel", 35, correlation=103),
            event("cuda_runtime", "hipLaunchKernel", 25, correlation=104),
            event("cuda_runtime", "hipLaunchKernel", 36, tid=2, correlation=105),
            event("cuda_runtime", "hipDeviceSynchronize", 37),
            *(kernel(f"k{number}", number, 200 - number) for number in range(101, 106)),
        ]
    }
    assert by_correlation(trace, calls) == {101: calls[0], 102: calls[0], 103: calls[1]}
    receipts = hip.kernel_receipts(trace, "gfx942", calls)
    assert [(r["kernel"], r.get("arguments")) for r in receipts] == [
        ("k101", {"x": "first"}),
        ("k102", {"x": "first"}),
        ("k103", {"x": "second"}),
        ("k104", None),
        ("k105", None),
    ]
    assert list(lacking({"x": (5, 8)}, receipts[3:])) == [
        "no receipt has argument x, due as [5,8] (launched: k104, k105)"
    ]


class StandIn:
    """The profiler of a GPU that is none: its trace has a mark for each call, and one kernel that it asked for."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    @contextmanager
    def profile(self, activities: Any) -> Iterator[StandIn]:
        yield self

    @contextmanager
    def record_function(self, name: str) -> Iterator[None]:
        number = len(self.events)
        yield
        self.events.append(event("user_annotation", name, number, 0.5))
        self.events.append(event("cuda_runtime", "hipModuleLaunchKernel", number + 0.25, correlation=number))
        self.events.append(kernel("add_rms_norm_520", number, number + 10))

    def export_chrome_trace(self, path: str) -> None:
        with open(path, "w") as stream:
            json.dump({"traceEvents": self.events}, stream)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> hip.HipBench:
    """A bench on the CPU's memory, whose profiler is the stand-in."""
    device = StandIn()
    monkeypatch.setattr(hip, "_not_seen_by_torch", lambda arch: None)
    monkeypatch.setattr(torch.profiler, "profile", device.profile)
    monkeypatch.setattr(torch.profiler, "record_function", device.record_function)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    made = hip.HipBench("gfx942")
    made.device = torch.device("cpu")
    return made


def test_a_session_sees_what_flydsl_hands_to_its_launcher(bench: hip.HipBench) -> None:
    """The second operation's own launcher, with the bare addresses that it is given; nothing runs."""
    from hcgr_examples.add_rms_norm.kernel import add_rms_norm

    x, residual = (bench.empty((5, 528), BF16, name) for name in ("x", "residual"))
    weight = bench.empty((520,), BF16, "weight")
    views = x[:, :520], residual[:, :520]
    for name, view in zip(("x", "residual"), views, strict=True):
        bench.named(view, name)
    host = environment(emulator.worker_environment("gfx942"))
    with host, runtime.launches_to(lambda launch: None), bench.session() as session:
        add_rms_norm(*views, weight, 1e-6)
    (receipt,) = session.launches
    view = "bfloat16[5,520] strides [528,1]"
    assert receipt["arguments"] == {"x": view, "residual": view, "weight": "bfloat16[520]"}
    due = load_operation("add_rms_norm").entry_points[0].shapes_due({"m": 5, "columns": 520})
    assert list(lacking(due, session.launches)) == []
    assert list(lacking(due | {"x": (6, 520)}, session.launches)) != []
    bench.close()
    assert bench._memory.seen([x.data_ptr()]) == {}
