"""Functions of ROCm's device library (OCML) that are one LLVM intrinsic: compiled without that library.

FlyDSL's pipeline turns an operation of MLIR's ``math`` dialect for which it has no code into a call of OCML, which is
bitcode that ROCm installs. For some of them OCML's function does nothing but call a compiler builtin, so the intrinsic
behind it gives the very machine code that linking and inlining would. Others hold an algorithm of their own: they need
the library, and a program that uses one is refused with its name.

Source: ROCm-Device-Libs of ROCm 6, ``ocml/src/{ceil,floor}{F,D,H}.cl``, ``{exp2,log2}{F,H}.cl``, ``log10F.cl`` (older
ones spell exp2, log2 and log10 of f32 out). The inlined builtin carries no fast-math flags, whatever the call has, so
the intrinsic has none either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .source_lines import operations_in

_ALL = ("f16", "f32", "f64")
#: Operation of the math dialect -> element types for which OCML's function is the intrinsic of the same name.
ONE_INTRINSIC = {
    "math.ceil": _ALL,
    "math.floor": _ALL,
    "math.exp2": ("f16", "f32"),
    "math.log2": ("f16", "f32"),
    "math.log10": ("f32",),
}
#: The approximate float32 form of these has code in FlyDSL's pipeline (one instruction), which is not OCML's.
_APPROXIMATE = {("math.exp2", "f32"): ("afn", "fast")}
_ELEMENT = re.compile(r"(?:vector<(?:\d+x)+)?(\w+)>?")


class MissingLibraryError(RuntimeError):
    """The program needs ROCm's device library."""


def replace(module: Any) -> None:
    """Rewrite those operations of the kernels in ``module`` into intrinsics."""
    from flydsl._mlir import ir

    with module.context:
        for operation in list(operations_in(module.operation)):
            if not _is_one_intrinsic(operation):
                continue
            made = ir.Operation.create(
                "llvm.call_intrinsic",  # which FlyDSL's pipeline lets pass; it calls OCML for llvm.intr.floor too
                results=[operation.results[0].type],
                operands=list(operation.operands),
                attributes={
                    "intrin": ir.StringAttr.get(f"llvm.{operation.name.removeprefix('math.')}"),
                    "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0]),
                    "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
                },
                loc=operation.location,
                ip=ir.InsertionPoint(operation),
            )
            operation.results[0].replace_all_uses_with(made.results[0])
            operation.erase()


def _is_one_intrinsic(operation: Any) -> bool:
    types = ONE_INTRINSIC.get(operation.name, ())
    if not types:
        return False
    element = _ELEMENT.fullmatch(str(operation.results[0].type))
    if element is None or element[1] not in types:
        return False
    given = str(operation.attributes["fastmath"]) if "fastmath" in operation.attributes else ""
    flags = given.partition("<")[2].rstrip(">").split(",")  # #arith.fastmath<afn,contract>
    return not any(flag.strip() in _APPROXIMATE.get((operation.name, element[1]), ()) for flag in flags)


@contextmanager
def named() -> Iterator[None]:
    """Context of a compilation: one that fails for want of ROCm's bitcode says so, and what to write instead."""
    try:
        yield
    except Exception as error:
        if "bitcode path" not in str(error):
            raise
        raise MissingLibraryError(
            "the kernel calls functions of ROCm's device library (OCML), which is not installed here. Without it there "
            f"are {', '.join(ONE_INTRINSIC)} (float32) and whatever LLVM has code for; others (sin, cos, erf, pow, "
            f"most functions of f16 and f64) need the library (ROCM_PATH), or to be written out. FlyDSL says: {error}"
        ) from error
