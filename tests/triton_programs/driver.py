"""A Triton "device" without a GPU: compiles a kernel for its arguments and hands the assembly to the emulator."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from validation.emulator import AddressSpace, launch

TYPE_NAMES = {
    torch.bool: "i1", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64",
    torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
    torch.float8_e4m3fnuz: "fp8e4b8", torch.float8_e5m2fnuz: "fp8e5b16",
}  # fmt: skip
"""Triton's name of an element type."""

Entry = TypeVar("Entry")

ARCHS = ("gfx942", "gfx950")
CHECKS = ("memcheck", "initcheck")
WAVE = 64


def _type_name(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return "*" + TYPE_NAMES[value.dtype]
    if isinstance(value, float):
        return "fp32"
    return "i32" if -(2**31) <= value < 2**31 else "i64"


def _is_multiple_of_16(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.data_ptr() % 16 == 0
    return isinstance(value, int) and value % 16 == 0


def _specialise(fn: Any, arguments: dict[str, Any], within_2gb: bool) -> ASTSource:
    """What ``@triton.jit`` would compile for these values: types, and which are multiples of 16.

    Names that are ``tl.constexpr`` parameters are compile-time constants, the others run-time arguments.
    within_2gb: say of tensors below 2 GB that they are, as Triton's launcher does; then more of them are accessed
        through buffer descriptors and 32-bit offsets.
    """
    signature: dict[str, str] = {}
    constants, attributes = {}, {}
    for position, parameter in enumerate(fn.params):
        value = arguments.get(parameter.name, parameter.default)
        if parameter.is_constexpr:
            signature[parameter.name] = "constexpr"
            constants[(position,)] = value
            continue
        signature[parameter.name] = _type_name(value)
        if _is_multiple_of_16(value):
            attributes[(position,)] = [["tt.divisibility", 16]]
        if within_2gb and isinstance(value, torch.Tensor) and value.untyped_storage().size() < 2**31:
            attributes.setdefault((position,), []).append(["tt.pointer_range", 32])
    return ASTSource(fn=fn, signature=signature, constexprs=constants, attrs=attributes)


class Device:
    """Compiles for ``arch`` and executes in the emulator; keeps the findings of every launch."""

    def __init__(self, arch: str) -> None:
        self.arch = arch
        self.target = GPUTarget("hip", arch, WAVE)
        self.launches = 0
        self.findings: list[str] = []
        self.mnemonics: set[str] = set()

    def turn(self, entries: Iterable[Entry]) -> list[Entry]:
        """Every second of ``entries``, the others on the other architecture: where both compile to much the same."""
        return list(entries)[ARCHS.index(self.arch) :: len(ARCHS)]

    def launch(
        self, fn: Any, grid: tuple[int, ...], *, space: AddressSpace | None = None,
        options: dict[str, Any] | None = None, within_2gb: bool = False, **arguments: Any,
    ) -> Any:  # fmt: skip
        """Run ``fn`` on ``grid`` workgroups; arguments by name. ``options``: num_warps, num_stages and the like.
        within_2gb: see ``_specialise``.

        Returns Triton's compiled kernel. Triton gives a masked-off lane of a buffer access an offset beyond the
        descriptor's range, so every kernel's file relies on that range check.
        """
        source = _specialise(fn, arguments, within_2gb)
        compiled = triton.compile(source, target=self.target, options={"enable_fp_fusion": True, **(options or {})})
        values = [arguments[name] for name, kind in source.signature.items() if kind != "constexpr"]
        # Triton appends two pointers of its own: global scratch and profiling scratch, null when unused.
        result = launch(
            compiled.asm["amdgcn"], compiled.metadata.name, grid, (compiled.metadata.num_warps * WAVE,),
            [*values, None, None], dynamic_lds=compiled.metadata.shared, space=space, checks=CHECKS,
            declared_clamps=(Path(fn.fn.__code__.co_filename).name,),
        )  # fmt: skip
        self.launches += 1
        self.findings += [str(finding) for finding in result.findings]
        self.mnemonics.update(result.mnemonics)
        return compiled
