"""The places where FlyDSL offers no hook, wrapped: the only module that touches its internals.

Each wrapper is behaviour-neutral for other backends. `install` fails, naming the attribute, on a FlyDSL
that has not got it, rather than run without one of them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import flydsl

from . import argument_names, device_library, runtime
from .compiler_errors import copied_stderr

_lock = threading.Lock()
_installed: list[str] = []


class BackendCompileError(RuntimeError):
    """FlyDSL's code generator printed an error, yet reported success."""


def _wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Any]) -> None:
    original = getattr(owner, name, None)
    if original is None:
        raise RuntimeError(
            f"flydsl {flydsl.__version__} has no {owner.__name__}.{name}; this plugin supports 0.4.1 to 0.5.x"
        )
    setattr(owner, name, make(original))


def _raising_dispatch(original: Callable[..., Any]) -> Callable[..., Any]:
    """Every launch, by a bare call or a compiled handle, passes here; its exceptions surface here."""

    @functools.wraps(original)
    def dispatch(self: Any, arguments: tuple[Any, ...]) -> Any:
        return runtime.call(functools.partial(original, self), arguments)

    return dispatch


def _checked_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Lowering: raise what LLVM only printed, then name the arguments in the ISA text."""

    @functools.wraps(original)
    def compile_module(cls: Any, *args: Any, **kwargs: Any) -> Any:
        from flydsl.compiler.backends import compile_backend_name

        from .backend import NAME

        if compile_backend_name() != NAME:
            return original(*args, **kwargs)
        with copied_stderr() as transcript, device_library.named():
            module = original(*args, **kwargs)
        if transcript.errors:
            kernel = kwargs.get("func_name") or "the module"
            raise BackendCompileError(f"LLVM could not generate code for {kernel}: " + "; ".join(transcript.errors))
        argument_names.name_binaries(module)
        return module

    return compile_module


def _named_kernel(original: Callable[..., Any]) -> Callable[..., Any]:
    """Kernel tracing: note which parameter each argument of the ``gpu.func`` came from."""

    @functools.wraps(original)
    def emit_kernel(self: Any, ctx: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *rest: Any, **more: Any) -> Any:
        from flydsl.compiler.protocol import get_ir_types

        result = original(self, ctx, args, kwargs, *rest, **more)
        _, values, function, *_ = result
        bound = self._sig.bind(*args, **kwargs)
        bound.apply_defaults()
        # `values` are the bound arguments in order, less the compile-time constants.
        names, pending = [], list(values)
        for name, value in bound.arguments.items():
            if pending and pending[0] is value:
                names += [name] * len(get_ir_types(pending.pop(0)))
        argument_names.note(function, names)
        return result

    return emit_kernel


def _quick_engine(original: Callable[..., Any]) -> Callable[..., Any]:
    """The host code of a launcher only hands its arguments on: compiling it well takes longer than it ever saves."""

    @functools.wraps(original, updated=())
    def engine(*args: Any, **kwargs: Any) -> Any:
        from flydsl.compiler.backends import compile_backend_name

        from .backend import NAME

        if compile_backend_name() == NAME:
            kwargs["opt_level"] = 0
        return original(*args, **kwargs)

    return engine


def _located_source(original: Callable[..., Any]) -> Callable[..., Any]:
    """FlyDSL 0.4 keys its cache on a function's text alone; the ISA also holds its file and line."""

    @functools.wraps(original)
    def source(function: Any) -> str:
        code = function.__code__
        return f"{original(function)}\n# {code.co_filename}:{code.co_firstlineno}"

    return source


def _current_target(original: Callable[..., Any]) -> Callable[..., Any]:
    """FlyDSL 0.4 keeps in its key the target of a launcher's first call; the environment may name another by now."""

    @functools.wraps(original)
    def make_cache_key(self: Any, *args: Any, **kwargs: Any) -> Any:
        from flydsl.compiler.backends import get_backend

        self._backend_target = get_backend().target
        return original(self, *args, **kwargs)

    return make_cache_key


def install() -> None:
    """Wrap FlyDSL's internals, once a process."""
    with _lock:
        if _installed:
            return
        from flydsl.compiler import jit_executor, jit_function, kernel_function

        _wrap(jit_executor.CallState, "__call__", _raising_dispatch)
        _wrap(jit_executor, "ExecutionEngine", _quick_engine)
        _wrap(jit_function.MlirCompiler, "compile", lambda bound: classmethod(_checked_compile(bound)))
        _wrap(kernel_function.KernelFunction, "_emit_kernel", _named_kernel)
        if hasattr(jit_function, "_get_func_source"):
            _wrap(jit_function, "_get_func_source", _located_source)
        if hasattr(jit_function.JitFunction, "_resolve_and_make_cache_key"):
            _wrap(jit_function.JitFunction, "_resolve_and_make_cache_key", _current_target)
        _installed.append(flydsl.__version__)
