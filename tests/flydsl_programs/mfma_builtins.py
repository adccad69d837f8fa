"""One wave, one MFMA builtin: D = A @ B + C from registers, in the shapes that tiled code seldom uses."""

# ruff: noqa: B008 - FlyDSL reads a default stream as the parameter's kind

from dataclasses import dataclass

import flydsl.compiler as flyc
import flydsl.expr as fx
import torch
from flydsl._mlir import ir
from flydsl.expr import range_constexpr, rocdl
from flydsl.runtime.device import get_rocm_arch

from . import compare


@dataclass(frozen=True)
class Mfma:
    """A builtin: its name, shape, operand elements a lane and their types (memory, builtin, result)."""

    name: str
    m: int
    k: int
    per_lane: int
    memory: type
    operand: type
    result: type
    torch_dtype: torch.dtype
    archs: tuple[str, ...] = ("gfx942", "gfx950")


E4M3 = {"gfx942": torch.float8_e4m3fnuz, "gfx950": torch.float8_e4m3fn}
E5M2 = {"gfx942": torch.float8_e5m2fnuz, "gfx950": torch.float8_e5m2}
NO_PERMUTATION, NO_NEGATION = "#rocdl<mfma_perm_b none>", "#rocdl<mfma_neg_modifier none>"
F8 = torch.uint8  # resolved per architecture

BUILTINS = (
    Mfma("mfma_f32_32x32x2f32_", 32, 2, 1, fx.Float32, fx.Float32, fx.Float32, torch.float32),
    Mfma("mfma_f32_16x16x4f32_", 16, 4, 1, fx.Float32, fx.Float32, fx.Float32, torch.float32),
    Mfma("mfma_f64_16x16x4f64_", 16, 4, 1, fx.Float64, fx.Float64, fx.Float64, torch.float64),
    Mfma("mfma_f32_16x16x8_xf32_", 16, 8, 2, fx.Float32, fx.Float32, fx.Float32, torch.float32, ("gfx942",)),
    Mfma("mfma_f32_32x32x8f16_", 32, 8, 4, fx.Float16, fx.Float16, fx.Float32, torch.float16),
    Mfma("mfma_f32_32x32x8bf16_1k_", 32, 8, 4, fx.BFloat16, fx.Int16, fx.Float32, torch.bfloat16),
    Mfma("mfma_i32_32x32x16_i8_", 32, 16, 8, fx.Int8, fx.Int64, fx.Int32, torch.int8),
    Mfma("mfma_f32_32x32x16_fp8_fp8_", 32, 16, 8, fx.Int8, fx.Int64, fx.Float32, F8),
    Mfma("mfma_f32_16x16x32_bf8_bf8_", 16, 32, 8, fx.Int8, fx.Int64, fx.Float32, F8),
    Mfma("mfma_f32_16x16x32_f16_", 16, 32, 8, fx.Float16, fx.Float16, fx.Float32, torch.float16, ("gfx950",)),
    Mfma("mfma_f32_32x32x16_bf16_", 32, 16, 8, fx.BFloat16, fx.BFloat16, fx.Float32, torch.bfloat16, ("gfx950",)),
    Mfma("mfma_i32_16x16x64_i8_", 16, 64, 16, fx.Int8, fx.Int32, fx.Int32, torch.int8, ("gfx950",)),
)


def result_row(builtin: Mfma, register: int, lane):
    """Row of D held by `register` of `lane` (its column is ``lane % m``)."""
    if builtin.result is fx.Float64:
        return 4 * register + lane // 16
    if builtin.m == 32:
        return 8 * (register // 4) + register % 4 + 4 * (lane // 32)
    return register + 4 * (lane // 16)


def make(builtin: Mfma):
    """Launcher of one builtin: A [m, k], B [m, k] (transposed), C and D [m, m]."""
    m, k, per_lane, result = builtin.m, builtin.k, builtin.per_lane, builtin.result
    registers = m * m // 64

    @flyc.kernel(name=builtin.name.rstrip("_") + "_kernel")
    def mfma_kernel(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, d: fx.Pointer):
        lane = fx.thread_idx.x
        offset = (lane % m) * k + (lane // m) * per_lane

        def operand(pointer):
            value = fx.generic_load(pointer + offset, count=per_lane)
            if fx.const_expr(builtin.operand is not builtin.memory):
                value = value.bitcast(builtin.operand)
                return (value[0] if builtin.operand is fx.Int64 else value).ir_value()
            return value.ir_value()

        at = [result_row(builtin, r, lane) * m + lane % m for r in range_constexpr(registers)]
        total = fx.Vector.from_elements([fx.generic_load(c + i) for i in at], result)
        answer = getattr(rocdl, builtin.name)(
            fx.Vector.make_type(registers, result),
            operand(a),
            operand(b),
            total.ir_value(),
            0,
            0,
            ir.Attribute.parse(NO_NEGATION if result is fx.Float64 else NO_PERMUTATION),
        )
        answer = fx.Vector(getattr(answer, "result", answer), (registers,), result)
        for r in range_constexpr(registers):
            fx.generic_store(d + at[r], answer[r])

    @flyc.jit
    def mfma(a: fx.Pointer, b: fx.Pointer, c: fx.Pointer, d: fx.Pointer, stream: fx.Stream = fx.Stream(None)):
        mfma_kernel(a, b, c, d).launch(grid=(1, 1, 1), block=(64, 1, 1), stream=stream)

    return mfma


def _dtype(builtin: Mfma) -> torch.dtype:
    if builtin.torch_dtype is not F8:
        return builtin.torch_dtype
    return (E5M2 if "bf8" in builtin.name else E4M3)[get_rocm_arch()]


def run(generator: torch.Generator) -> list[compare.Case]:
    """Small integers: every product and sum is exact, whatever the order of the accumulation."""
    cases = []
    for builtin in BUILTINS:
        if get_rocm_arch() not in builtin.archs:
            continue
        out = {fx.Float32: torch.float32, fx.Float64: torch.float64, fx.Int32: torch.int32}[builtin.result]
        shape = (builtin.m, builtin.k)
        a, b = (compare.small_integers(generator, shape, -4, 4).float().to(_dtype(builtin)) for _ in range(2))
        c = compare.small_integers(generator, (builtin.m, builtin.m), -50, 50).to(out)
        d = compare.poisoned((builtin.m, builtin.m), out)
        align = builtin.per_lane * a.element_size()
        pointers = [flyc.from_c_void_p(builtin.memory, None, assumed_align=align)] * 2
        pointers += [flyc.from_c_void_p(builtin.result, None)] * 2
        program = flyc.compile(make(builtin), *pointers, fx.Stream(None))
        program(*(t.data_ptr() for t in (a, b, c, d)), None)
        want = (a.double() @ b.double().t() + c.double()).to(out)
        cases.append(compare.exact(builtin.name.rstrip("_"), d, want))
    return cases
