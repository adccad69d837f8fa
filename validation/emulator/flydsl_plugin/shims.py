"""LLVM-dialect definitions of the host symbols, appended to a launcher's module before it is lowered.

Each shim asks CPython for the address of its callback (an ``int`` attribute of `runtime`) and jumps to
it. So there is no shared library to build or ship, and no address of this process in the module: a
launcher that FlyDSL cached on disk works in a new process, which has the callbacks somewhere else.
"""

from __future__ import annotations

from functools import lru_cache

from .host_abi import LAUNCH_ONLY, MLIR_TYPES, SYMBOLS, HostSymbol

RUNTIME_MODULE = __package__ + ".runtime"
"""Module whose ``ADDRESS_<symbol>`` attributes the shims read."""

MARKER = "flydsl_emulator_callback"
"""Name of the lookup function; a compiled launcher that contains it was built for the emulator."""

_LOOKUP = """
  llvm.func @PyGILState_Ensure() -> i32
  llvm.func @PyGILState_Release(i32)
  llvm.func @PyImport_ImportModule(!llvm.ptr) -> !llvm.ptr
  llvm.func @PyObject_GetAttrString(!llvm.ptr, !llvm.ptr) -> !llvm.ptr
  llvm.func @PyLong_AsVoidPtr(!llvm.ptr) -> !llvm.ptr
  llvm.func @Py_DecRef(!llvm.ptr)
  llvm.func @PyErr_Print()
  llvm.func @PyErr_Clear()
  llvm.func @abort()
  llvm.mlir.global internal constant @{marker}_module("{module}\\00") {{addr_space = 0 : i32}}
  llvm.func internal @{marker}(%name: !llvm.ptr, %at_exit: i1) -> !llvm.ptr {{
    %null = llvm.mlir.zero : !llvm.ptr
    %gil = llvm.call @PyGILState_Ensure() : () -> i32
    %text = llvm.mlir.addressof @{marker}_module : !llvm.ptr
    %module = llvm.call @PyImport_ImportModule(%text) : (!llvm.ptr) -> !llvm.ptr
    %no_module = llvm.icmp "eq" %module, %null : !llvm.ptr
    llvm.cond_br %no_module, ^missing, ^imported
  ^imported:
    %number = llvm.call @PyObject_GetAttrString(%module, %name) : (!llvm.ptr, !llvm.ptr) -> !llvm.ptr
    llvm.call @Py_DecRef(%module) : (!llvm.ptr) -> ()
    %no_number = llvm.icmp "eq" %number, %null : !llvm.ptr
    llvm.cond_br %no_number, ^missing, ^found
  ^found:
    %address = llvm.call @PyLong_AsVoidPtr(%number) : (!llvm.ptr) -> !llvm.ptr
    llvm.call @Py_DecRef(%number) : (!llvm.ptr) -> ()
    llvm.call @PyGILState_Release(%gil) : (i32) -> ()
    llvm.return %address : !llvm.ptr
  ^missing:
    llvm.cond_br %at_exit, ^nothing, ^broken
  ^nothing:
    llvm.call @PyErr_Clear() : () -> ()
    llvm.call @PyGILState_Release(%gil) : (i32) -> ()
    llvm.return %null : !llvm.ptr
  ^broken:
    llvm.call @PyErr_Print() : () -> ()
    llvm.call @abort() : () -> ()
    llvm.unreachable
  }}
"""


def _shim(symbol: HostSymbol) -> str:
    types = [MLIR_TYPES[kind] for kind in symbol.args]
    parameters = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    values = ", ".join(f"%a{i}" for i in range(len(types)))
    result = MLIR_TYPES[symbol.result] if symbol.result else "()"
    arrow, bound, returned = (f" -> {result}", "%r = ", f"%r : {result}") if symbol.result else ("", "", "")
    skipped = "llvm.unreachable" if symbol.result else "llvm.return"
    return f"""
  llvm.mlir.global internal constant @{MARKER}_{symbol.name}("ADDRESS_{symbol.name}\\00") {{addr_space = 0 : i32}}
  llvm.func @{symbol.name}({parameters}){arrow} {{
    %name = llvm.mlir.addressof @{MARKER}_{symbol.name} : !llvm.ptr
    %at_exit = llvm.mlir.constant({"true" if symbol.at_exit else "false"}) : i1
    %callback = llvm.call @{MARKER}(%name, %at_exit) : (!llvm.ptr, i1) -> !llvm.ptr
    %null = llvm.mlir.zero : !llvm.ptr
    %unreachable = llvm.icmp "eq" %callback, %null : !llvm.ptr
    llvm.cond_br %unreachable, ^skip, ^run
  ^run:
    {bound}llvm.call %callback({values}) : !llvm.ptr, ({", ".join(types)}) -> {result}
    llvm.return {returned}
  ^skip:
    {skipped}
  }}
"""


@lru_cache(maxsize=2)
def module_text(launch_only: bool) -> str:
    """MLIR module that defines every symbol of `host_abi.SYMBOLS`, or those of `host_abi.LAUNCH_ONLY`.

    Each definition costs every kernel some milliseconds of host compilation.
    """
    lookup = _LOOKUP.format(marker=MARKER, module=RUNTIME_MODULE)
    symbols = [symbol for symbol in SYMBOLS if not launch_only or symbol.name in LAUNCH_ONLY]
    return "module {\n" + lookup + "".join(map(_shim, symbols)) + "}\n"
