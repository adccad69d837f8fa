"""Handles, backends, streams and observers."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

import hcgr
from hcgr import dispatch
from hcgr.plan import CombinePlan

from .standin import StandIn, make_inputs

CPU = torch.device("cpu")
KERNEL = "hcgr.kernels.combine"


class Stream:
    """A CPU stream for the emulator: a device and a raw handle."""

    def __init__(self, handle: int) -> None:
        self.device, self.cuda_stream = CPU, handle


def call(**changes: Any) -> torch.Tensor:
    return hcgr.flydsl_gr_two_stage_combine(**{**make_inputs(3), "hc_count": 4, **changes})


def test_a_plan_is_compiled_once_and_launched_each_time(standin: StandIn) -> None:
    for _ in range(3):
        call()
    assert standin.compiled == [(KERNEL, CombinePlan(4, 512, 1), "gfx942")]
    assert len(standin.calls) == 3


def test_compiling_alone_launches_nothing(standin: StandIn) -> None:
    dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx942", CPU)
    assert len(standin.compiled) == 1
    assert not standin.calls


@pytest.mark.parametrize(
    "other",
    [
        (KERNEL, CombinePlan(8, 512, 1), "gfx942", CPU),
        (KERNEL, CombinePlan(4, 512, 2), "gfx942", CPU),
        (KERNEL, CombinePlan(4, 512, 1), "gfx950", CPU),
        (KERNEL, CombinePlan(4, 512, 1), "gfx942", torch.device("cuda", 0)),
        (KERNEL, CombinePlan(4, 512, 1), "gfx942", torch.device("cuda", 1)),
    ],
)
def test_handles_are_not_shared(other: Any, standin: StandIn) -> None:
    first = dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx942", CPU)
    assert dispatch.get_handle(*other) is not first


def test_handles_are_not_shared_across_backends(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    first = dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx942", CPU)
    monkeypatch.setenv(dispatch.BACKEND_VARIABLE, "rocm")
    assert dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx942", CPU) is not first


def test_threads_share_one_compilation(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*key: Any) -> Any:
        time.sleep(0.05)
        return standin(*key)

    monkeypatch.setattr(dispatch, "_compile", slow)
    start, handles = threading.Barrier(8), []

    def work() -> None:
        start.wait()
        handles.append(dispatch.get_handle(KERNEL, CombinePlan(2, 512, 1), "gfx942", CPU))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(handles) == 8
    assert len(set(map(id, handles))) == 1
    assert len(standin.compiled) == 1


def test_a_failed_compilation_is_not_cached(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no compiler")

    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_compile", fail)
        with pytest.raises(RuntimeError, match="no compiler"):
            call()
    call()
    assert len(standin.calls) == 1


def test_cpu_tensors_without_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(dispatch.BACKEND_VARIABLE, raising=False)
    with pytest.raises(NotImplementedError) as caught:
        call()
    for word in ("cpu", "FLYDSL_COMPILE_BACKEND=rocm", "FLYDSL_COMPILE_BACKEND=emulator", "ARCH", "gfx950"):
        assert word in str(caught.value)


def test_device_tensors_with_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code would take a device address for a host address."""
    monkeypatch.setenv(dispatch.BACKEND_VARIABLE, "emulator")
    with pytest.raises(NotImplementedError, match="cuda:0 cannot run with FLYDSL_COMPILE_BACKEND=emulator"):
        dispatch.require_runnable(torch.device("cuda", 0))


def test_a_device_nobody_runs() -> None:
    with pytest.raises(NotImplementedError, match="meta cannot run"):
        dispatch.require_runnable(torch.device("meta"))


def test_an_unknown_arch_stops_the_call(standin: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx90a")
    out = torch.full((3, 2048), 7.0, dtype=torch.bfloat16)
    for changes in ({}, {"out": out}):
        with pytest.raises(NotImplementedError, match="gfx90a"):
            call(**changes)
    assert (out == 7).all()
    assert not standin.compiled


def test_flydsl_configured_for_another_arch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx942")
    with pytest.raises(RuntimeError, match=r"compiles for 'gfx942'.*gfx950 device.*ARCH and FLYDSL_GPU_ARCH"):
        dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx950", torch.device("cuda", 0))


def test_compile_only_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx942")
    monkeypatch.setattr("flydsl.compiler.compile", lambda *_: None)
    with pytest.raises(RuntimeError, match="unset COMPILE_ONLY"):
        dispatch.get_handle(KERNEL, CombinePlan(4, 512, 1), "gfx942", CPU)


def test_observers_see_the_launch_before_it_runs(standin: StandIn) -> None:
    seen: list[tuple[dispatch.Launch, int]] = []
    with dispatch.observe(lambda launch: seen.append((launch, len(standin.calls)))):
        r2 = call()
    call()
    ((launch, calls_before),) = seen
    assert calls_before == 0
    assert (launch.kernel, launch.plan, launch.arch) == (KERNEL, CombinePlan(4, 512, 1), "gfx942")
    assert list(launch.tensors) == ["residual", "block_output", "injection", "r2"]
    assert launch.tensors["r2"].data_ptr() == r2.data_ptr()
    assert launch.scalars == (3, 2048, 512, 4, 3)


def test_addresses_name_their_tensor(standin: StandIn) -> None:
    inputs = make_inputs(3)
    r2 = hcgr.flydsl_gr_two_stage_combine(**inputs, hc_count=4)
    addresses = standin.calls[0][:4]
    assert [a.name for a in addresses] == ["residual", "block_output", "injection", "r2"]
    assert addresses[0].tensor is not None
    assert [int(a) for a in addresses] == [
        *(inputs[n].data_ptr() for n in ("residual", "block_output", "injection")),
        r2.data_ptr(),
    ]


def test_the_stream_reaches_the_launch_and_is_restored(standin: StandIn) -> None:
    outer, inner = Stream(1), Stream(2)
    call()
    with dispatch.on_stream(outer):
        call(stream=inner)
        call()
        with pytest.raises(ValueError, match="residual"):
            call(stream=inner, residual=torch.zeros(3, 8, dtype=torch.bfloat16))
        call(out=torch.empty(3, 2048, dtype=torch.bfloat16))
    call()
    assert [arguments[-1] for arguments in standin.calls] == [None, inner, outer, outer, None]
