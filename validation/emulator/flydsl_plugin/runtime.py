"""What a compiled FlyDSL launcher reaches when it calls its host runtime.

The shims find the callbacks through this module's ``ADDRESS_<symbol>`` integers. A callback runs inside
compiled code, where an exception cannot propagate (ctypes would print and forget it), so the first
exception of a call is kept per thread; `call` raises it in the Python caller once the launcher returns.
Later launches of the same call are skipped: their inputs are not what the program meant them to be.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from typing import Any

from ..session import current_session
from .host_abi import CTYPES, SYMBOLS, HostSymbol


class HostCallError(RuntimeError):
    """A launcher called its host runtime in a way that the emulator does not support."""


@dataclass(frozen=True)
class KernelLaunch:
    """One kernel launch as the host code asked for it.

    `grid` is in workgroups and `block` in lanes; ``params[i]`` is the host address of the value of the
    i-th ``.args`` entry of the kernel's metadata, valid during the launch only; `dynamic_lds` is in bytes;
    `stream` is the raw handle, 0 the default stream; `arguments` are the Python values that the launcher
    was called with, in order, the only place where the launch's tensors can be seen.
    """

    asm: str
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: tuple[int, ...]
    dynamic_lds: int
    stream: int
    arguments: tuple[Any, ...] = field(default=(), repr=False)


Launcher = Callable[[KernelLaunch], None]


def emulate(launch: KernelLaunch) -> None:
    """Run `launch` in the emulator session of this process; raises what the emulator raises."""
    from .. import launch_raw

    launch_raw(
        launch.asm,
        launch.kernel,
        launch.grid,
        launch.block,
        launch.params,
        launch.dynamic_lds,
        launch.stream,
        tensors=live_tensors(),
    )


class _ThreadState(threading.local):
    """The call in progress on this thread: its arguments and its first exception."""

    arguments: tuple[Any, ...] = ()
    failure: BaseException | None = None


_state = _ThreadState()
_launcher: Launcher = emulate
_handles = itertools.count(0x1000, 0x10)
_modules: dict[int, str] = {}
_functions: dict[int, tuple[int, str]] = {}
_function_handles: dict[tuple[int, str], int] = {}
_streams: set[int] = set()
_events: set[int] = set()
_recorded: dict[int, Any] = {}


def set_launcher(launcher: Launcher | None) -> Launcher:
    """Send every later launch of this process to `launcher` (None: the emulator); returns the previous one."""
    global _launcher
    previous, _launcher = _launcher, launcher or emulate
    return previous


@contextmanager
def launches_to(launcher: Launcher) -> Iterator[None]:
    """Context in which this process' launches go to `launcher`."""
    previous = set_launcher(launcher)
    try:
        yield
    finally:
        set_launcher(previous)


def live_arguments() -> tuple[Any, ...]:
    """Python arguments of the launcher call that this thread is inside of; empty outside of one."""
    return _state.arguments


def live_tensors() -> list[Any]:
    """Tensors among `live_arguments`, in order; those passed as bare addresses cannot be seen."""
    return [tensor for argument in _state.arguments for tensor in tensors_in(argument)]


def tensors_in(argument: Any) -> Iterator[Any]:
    """Tensors of one launcher argument: the tensor itself, a wrapper of one (FlyDSL's, or an address that carries its
    tensor), or a struct of them."""
    for attribute in ("torch_tensor", "dltensor", "tensor"):
        argument = getattr(argument, attribute, argument)
    if hasattr(argument, "data_ptr") and hasattr(argument, "untyped_storage"):
        yield argument
    elif is_dataclass(argument) or isinstance(argument, (tuple, list)):
        members = argument if isinstance(argument, (tuple, list)) else vars(argument).values()
        for member in members:
            yield from tensors_in(member)


def call(dispatch: Callable[[tuple[Any, ...]], Any], arguments: tuple[Any, ...]) -> Any:
    """Run ``dispatch(arguments)``, the compiled launcher, and raise what its callbacks could not."""
    outer = _state.arguments, _state.failure
    _state.arguments, _state.failure = arguments, None
    try:
        result = dispatch(arguments)
        failure = _state.failure
    finally:
        _state.arguments, _state.failure = outer
    if failure is not None:
        raise failure
    return result


# -- callbacks -------------------------------------------------------------------------------------


def _module_load_jit(text: int, _opt_level: int) -> int:
    handle = next(_handles)
    _modules[handle] = ctypes.string_at(text).decode()
    return handle


def _module_load(_data: int, size: int) -> int:
    raise HostCallError(f"the launcher loads a {size}-byte device binary; the emulator runs ISA text only")


def _module_unload(module: int) -> None:
    _modules.pop(module, None)
    for key in [key for key in list(_function_handles) if key[0] == module]:
        _functions.pop(_function_handles.pop(key), None)


def _module_get_function(module: int, name: int) -> int:
    """The same handle for the same kernel: a launcher asks at every launch."""
    key = (module, ctypes.string_at(name).decode())
    handle = _function_handles.setdefault(key, next(_handles))
    _functions[handle] = key
    return handle


def _launch_kernel(
    function: int,
    gx: int,
    gy: int,
    gz: int,
    bx: int,
    by: int,
    bz: int,
    dynamic_lds: int,
    stream: int | None,
    params: int | None,
    extra: int | None,
    count: int,
) -> None:
    if extra:
        raise HostCallError("mgpuLaunchKernel with an 'extra' argument list; only 'params' is supported")
    module, kernel = _functions.get(function, (0, ""))
    if module not in _modules:
        raise HostCallError(f"launch of kernel handle {function:#x}, whose module is not loaded")
    addresses = tuple((ctypes.c_void_p * count).from_address(params)) if params and count else ()
    _launcher(
        KernelLaunch(
            asm=_modules[module],
            kernel=kernel,
            grid=(gx, gy, gz),
            block=(bx, by, bz),
            params=addresses,
            dynamic_lds=dynamic_lds,
            stream=stream or 0,
            arguments=_state.arguments,
        )
    )


def _create(live: set[int]) -> Callable[[], int]:
    def create() -> int:
        handle = next(_handles)
        live.add(handle)
        return handle

    return create


def _destroy(kind: str, live: set[int]) -> Callable[[int], None]:
    def destroy(handle: int) -> None:
        if handle not in live:
            raise HostCallError(f"destroy of {kind} {handle:#x}, which does not exist")
        live.discard(handle)

    return destroy


def _record(event: int, stream: int | None) -> None:
    """Events order work in the session's queue; without one that is concurrent, everything is done already."""
    _recorded[event] = current_session().mark(stream or 0)


def _wait(stream: int | None, event: int) -> None:
    if event in _recorded:
        current_session().mark(stream or 0, after=_recorded[event])


def _synchronize(_: int | None) -> None:
    current_session().synchronize()


def _set_default_device(device: int) -> None:
    if device:
        raise HostCallError(f"device {device} was selected; the emulator has device 0 only")


_HANDLERS: dict[str, Callable[..., Any]] = {
    "mgpuModuleLoadJIT": _module_load_jit,
    "mgpuModuleLoad": _module_load,
    "mgpuModuleUnload": _module_unload,
    "mgpuModuleGetFunction": _module_get_function,
    "mgpuLaunchKernel": _launch_kernel,
    "mgpuStreamCreate": _create(_streams),
    "mgpuStreamDestroy": _destroy("stream", _streams),
    "mgpuStreamSynchronize": _synchronize,
    "mgpuStreamWaitEvent": _wait,
    "mgpuEventCreate": _create(_events),
    "mgpuEventDestroy": _destroy("event", _events),
    "mgpuEventRecord": _record,
    "mgpuEventSynchronize": _synchronize,
    "mgpuSetDefaultDevice": _set_default_device,
}


def _refuse(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> None:
        raise HostCallError(f"the launcher called {name}; the emulator supports {', '.join(sorted(_HANDLERS))}")

    return refuse


def _guarded(symbol: HostSymbol) -> Callable[..., int | None]:
    handler = _HANDLERS.get(symbol.name) or _refuse(symbol.name)
    failed = None if symbol.result is None else 0

    def guarded(*args: Any) -> int | None:
        if _state.failure is not None:
            return failed
        try:
            result = handler(*args)
        except BaseException as error:  # raised again by `call`, in the thread's Python caller
            _state.failure = error
            return failed
        return failed if symbol.result is None else result

    return guarded


def _callback(symbol: HostSymbol) -> Any:
    result = None if symbol.result is None else CTYPES[symbol.result]
    return ctypes.CFUNCTYPE(result, *(CTYPES[kind] for kind in symbol.args))(_guarded(symbol))


_callbacks = {symbol.name: _callback(symbol) for symbol in SYMBOLS}  # kept alive for the whole process
for _name, _function in _callbacks.items():
    globals()[f"ADDRESS_{_name}"] = ctypes.cast(_function, ctypes.c_void_p).value
