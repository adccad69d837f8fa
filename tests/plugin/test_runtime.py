"""The host runtime and the text it is reached through, without FlyDSL."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from validation.emulator.flydsl_plugin import HostCallError, argument_names, flydsl_hooks, runtime, shims
from validation.emulator.flydsl_plugin.host_abi import LAUNCH_ONLY, SYMBOLS

REFUSED = ("mgpuLaunchClusterKernel", "mgpuMemAlloc", "mgpuMemFree", "mgpuMemcpy", "mgpuMemset16", "mgpuMemset32")


def host(name: str, *args: Any) -> Any:
    """Call a symbol the way compiled code does."""
    return runtime._callbacks[name](*args)


def zeros(name: str) -> list[int]:
    (symbol,) = [s for s in SYMBOLS if s.name == name]
    return [0] * len(symbol.args)


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_host_calls_are_refused_by_name(name: str) -> None:
    with pytest.raises(HostCallError, match=name):
        runtime.call(lambda _: host(name, *zeros(name)), ())


def test_every_symbol_has_an_address_and_a_definition() -> None:
    everything, launching = shims.module_text(False), shims.module_text(True)
    for symbol in SYMBOLS:
        assert getattr(runtime, f"ADDRESS_{symbol.name}") > 0
        assert f"llvm.func @{symbol.name}(" in everything
        assert (f"llvm.func @{symbol.name}(" in launching) == (symbol.name in LAUNCH_ONLY)


def test_no_process_address_is_in_the_shims() -> None:
    addresses = [str(getattr(runtime, f"ADDRESS_{s.name}")) for s in SYMBOLS]
    assert not any(address in shims.module_text(False) for address in addresses)


def test_the_first_failure_of_a_call_wins_and_the_next_call_is_clean() -> None:
    def dispatch(_: tuple[Any, ...]) -> str:
        host("mgpuStreamDestroy", 0xDEAD)
        host("mgpuMemFree", 0, 0)
        return "done"

    with pytest.raises(HostCallError, match="stream 0xdead"):
        runtime.call(dispatch, ())
    assert runtime.call(lambda _: "done", ()) == "done"


def test_a_failure_of_the_dispatch_itself_is_not_masked() -> None:
    with pytest.raises(ZeroDivisionError):
        runtime.call(lambda _: 1 / 0, ())
    assert runtime.live_arguments() == ()


def test_streams_and_events_live_until_destroyed() -> None:
    def dispatch(_: tuple[Any, ...]) -> None:
        stream, event = host("mgpuStreamCreate"), host("mgpuEventCreate")
        host("mgpuEventRecord", event, stream)
        host("mgpuStreamWaitEvent", stream, event)
        host("mgpuStreamSynchronize", stream)
        host("mgpuEventSynchronize", event)
        host("mgpuEventDestroy", event)
        host("mgpuStreamDestroy", stream)
        host("mgpuStreamDestroy", stream)

    with pytest.raises(HostCallError, match="does not exist"):
        runtime.call(dispatch, ())


def test_a_second_device_is_refused() -> None:
    runtime.call(lambda _: host("mgpuSetDefaultDevice", 0), ())
    with pytest.raises(HostCallError, match="device 1"):
        runtime.call(lambda _: host("mgpuSetDefaultDevice", 1), ())


def test_modules_functions_and_launches() -> None:
    launches: list[runtime.KernelLaunch] = []
    values = (ctypes.c_int32 * 2)(5, 6)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(values), ctypes.addressof(values) + 4)
    text, name = ctypes.c_char_p(b"isa text"), ctypes.c_char_p(b"k")
    as_address = lambda p: ctypes.cast(p, ctypes.c_void_p).value  # noqa: E731

    def dispatch(_: tuple[Any, ...]) -> None:
        module = host("mgpuModuleLoadJIT", as_address(text), 2)
        function = host("mgpuModuleGetFunction", module, as_address(name))
        assert host("mgpuModuleGetFunction", module, as_address(name)) == function
        size = (1, 2, 3, 64, 1, 1)
        host("mgpuLaunchKernel", function, *size, 16, 9, ctypes.addressof(params), None, 2)
        host("mgpuModuleUnload", module)
        host("mgpuLaunchKernel", function, *size, 16, 9, ctypes.addressof(params), None, 2)

    with runtime.launches_to(launches.append), pytest.raises(HostCallError, match="not loaded"):
        runtime.call(dispatch, ("argument",))
    (launch,) = launches
    assert (launch.asm, launch.kernel, launch.grid, launch.block) == ("isa text", "k", (1, 2, 3), (64, 1, 1))
    assert (launch.dynamic_lds, launch.stream, launch.arguments) == (16, 9, ("argument",))
    assert [ctypes.c_int32.from_address(p).value for p in launch.params] == [5, 6]


def test_an_extra_argument_list_is_refused() -> None:
    with pytest.raises(HostCallError, match="extra"):
        runtime.call(lambda _: host("mgpuLaunchKernel", 0, 1, 1, 1, 64, 1, 1, 0, 0, 0, 0x1000, 0), ())


METADATA = """\
\ts_endpgm
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
      - .offset:         8
        .size:           4
        .value_kind:     by_value
      - .address_space:  global
        .offset:         16
        .size:           8
        .value_kind:     global_buffer
    .name:           first
  - .args:
      - .address_space:  global
        .offset:         0
        .size:           8
        .value_kind:     global_buffer
    .name:           second
amdhsa.version:
  - 1
"""


def test_arguments_are_named_in_order() -> None:
    named = argument_names.name_arguments(METADATA, {"first": ["x", "y"], "second": ["z"]})
    lines = [line.strip() for line in named.splitlines()]
    assert [line.split()[-1] for line in lines if line.startswith(".name:")] == ["x", "y", "first", "z", "second"]
    assert lines[lines.index(".name:           y") + 1] == ".offset:         16"
    added = [f".name:           {name}" for name in "xyz"]
    assert [line for line in lines if line not in added] == [line.strip() for line in METADATA.splitlines()]


def test_a_kernel_with_another_number_of_pointers_stays_unnamed() -> None:
    assert argument_names.name_arguments(METADATA, {"first": ["x"], "second": []}) == METADATA
    assert argument_names.name_arguments("\ts_endpgm\n", {"first": ["x"]}) == "\ts_endpgm\n"


@pytest.mark.parametrize(("backend", "level"), [("emulator", 0), ("rocm", 3)])
def test_host_code_of_emulated_launchers_is_not_optimised(
    backend: str, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is that of another backend touched."""
    monkeypatch.setattr("flydsl.compiler.backends.compile_backend_name", lambda: backend)
    calls: list[tuple[Any, dict[str, Any]]] = []
    engine = flydsl_hooks._quick_engine(lambda module, **options: calls.append((module, options)))
    engine("module", opt_level=3, shared_libs=[])
    assert calls == [("module", {"opt_level": level, "shared_libs": []})]
