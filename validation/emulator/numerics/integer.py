"""Integer operations of the vector ALU that numpy does not have.

Operands are uint32 arrays (uint64 where the name says 64) of broadcastable
shapes; signed operations read the same bits as two's complement and return
uint32 bits.  Names and semantics: CDNA3 and CDNA4 ISA manuals, VOP chapters.
"""

from __future__ import annotations

import numpy as np

from .bits import Array
from .into import into

_31 = np.uint32(31)
_32 = np.uint64(32)
_ALL = np.uint32(0xFFFFFFFF)
_ONE = np.uint32(1)
_BYTE = np.uint32(0xFF)
_HALF = np.uint32(0xFFFF)


def _u32(x: Array) -> Array:
    return np.asarray(x, dtype=np.uint32)


def _i32(x: Array) -> Array:
    return _u32(x).view(np.int32)


def _i64(x: Array) -> Array:
    return _i32(x).astype(np.int64)


def _u64(x: Array) -> Array:
    return _u32(x).astype(np.uint64)


def _low(x: Array) -> Array:
    """Low 32 bits of int64 or uint64 values as uint32."""
    return x.astype(np.uint32)


# Multiplication


def mul_hi_u32(a: Array, b: Array) -> Array:
    """High half of the unsigned product: `V_MUL_HI_U32`."""
    return _low((_u64(a) * _u64(b)) >> _32)


def mul_hi_i32(a: Array, b: Array) -> Array:
    """High half of the signed product: `V_MUL_HI_I32`."""
    return _low((_i64(a) * _i64(b)) >> np.int64(32))


def unsigned24(x: Array) -> Array:
    """Low 24 bits, zero-extended."""
    return _u32(x) & np.uint32(0xFFFFFF)


def signed24(x: Array) -> Array:
    """Low 24 bits, sign-extended, as uint32 bits."""
    return ((_u32(x) << np.uint32(8)).view(np.int32) >> np.int32(8)).view(np.uint32)


def mul_hi_u24(a: Array, b: Array) -> Array:
    """Bits 47:32 of the product of unsigned 24-bit values: `V_MUL_HI_U32_U24`."""
    return mul_hi_u32(unsigned24(a), unsigned24(b))


def mul_hi_i24(a: Array, b: Array) -> Array:
    """High half of the product of signed 24-bit values: `V_MUL_HI_I32_I24`."""
    return mul_hi_i32(signed24(a), signed24(b))


def mad_u24(a: Array, b: Array, c: Array) -> Array:
    """24-bit unsigned product plus c, low 32 bits: `V_MAD_U32_U24` (`V_MUL_U32_U24` with c = 0)."""
    return unsigned24(a) * unsigned24(b) + _u32(c)


def mad_i24(a: Array, b: Array, c: Array) -> Array:
    """24-bit signed product plus c, low 32 bits: `V_MAD_I32_I24` (`V_MUL_I32_I24` with c = 0)."""
    return signed24(a) * signed24(b) + _u32(c)


def mad_u64_u32(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(a * b + c as uint64, carry out as bool) for uint32 a, b and uint64 c: `V_MAD_U64_U32`."""
    product = _u64(a) * _u64(b)
    total = product + np.asarray(c, dtype=np.uint64)
    return total, total < product


def mad_i64_i32(a: Array, b: Array, c: Array) -> tuple[Array, Array]:
    """(a * b + c as uint64 bits, bit 64 of the exact sum as bool) for signed operands: `V_MAD_I64_I32`."""
    product = (_i64(a) * _i64(b)).view(np.uint64)
    addend = np.asarray(c, dtype=np.uint64)
    total = product + addend
    top = np.uint64(63)
    carry = total < product
    # Bit 64 of a sign-extended 65-bit sum: both sign extensions plus the carry.
    return total, (((product >> top) + (addend >> top) + carry) & np.uint64(1)) != 0


# Saturating sums (the CLAMP modifier of integer opcodes)


def _saturate(wide: Array, bits: int, signed: bool) -> Array:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    mask = np.int64((1 << bits) - 1)
    return (np.minimum(np.maximum(wide, np.int64(low)), np.int64(high)) & mask).astype(np.uint32)


def _extend(x: Array, bits: int, signed: bool) -> Array:
    wide = _u32(x).astype(np.int64) & np.int64((1 << bits) - 1)
    sign = np.int64(1 << (bits - 1))
    return (wide ^ sign) - sign if signed else wide


def add_saturating(a: Array, b: Array, bits: int = 32, signed: bool = False) -> Array:
    """a + b clamped to the range of `bits`-wide integers, as uint32: add opcodes with CLAMP."""
    return _saturate(_extend(a, bits, signed) + _extend(b, bits, signed), bits, signed)


def sub_saturating(a: Array, b: Array, bits: int = 32, signed: bool = False) -> Array:
    """a - b clamped to the range of `bits`-wide integers, as uint32: sub opcodes with CLAMP."""
    return _saturate(_extend(a, bits, signed) - _extend(b, bits, signed), bits, signed)


def mad_saturating(a: Array, b: Array, c: Array, bits: int = 16, signed: bool = False) -> Array:
    """a * b + c clamped to `bits`-wide integers (at most 24), as uint32: `V_MAD_U16`/`_I16` with CLAMP."""
    if bits > 24:
        raise ValueError(f"the intermediate product must fit 64 bits: bits must be at most 24, got {bits}")
    product = _extend(a, bits, signed) * _extend(b, bits, signed)
    return _saturate(product + _extend(c, bits, signed), bits, signed)


# Bit fields


@into(0, 1, 2)
def bfe_u32(x: Array, offset: Array, width: Array, out: Array | None = None) -> Array:
    """`width` & 31 bits of x from bit `offset` & 31, zero-extended: `V_BFE_U32`."""
    mask = (_ONE << (_u32(width) & _31)) - _ONE
    return np.bitwise_and(np.right_shift(_u32(x), _u32(offset) & _31, out=out), mask, out=out)


def bfe_i32(x: Array, offset: Array, width: Array) -> Array:
    """`width` & 31 bits of x from bit `offset` & 31, sign-extended: `V_BFE_I32`; width 0 gives 0.

    Bits beyond bit 31 are copies of the sign.
    """
    size = _u32(width) & _31
    mask = (_ONE << size) - _ONE
    field = (_i32(x) >> (_u32(offset) & _31).view(np.int32)).view(np.uint32) & mask
    sign = (_ONE << size) >> _ONE
    return (field ^ sign) - sign


def bfi(mask: Array, a: Array, b: Array) -> Array:
    """Bits of a where mask is set, of b elsewhere: `V_BFI_B32`."""
    mask = _u32(mask)
    return (mask & _u32(a)) | (~mask & _u32(b))


def bfm(width: Array, offset: Array) -> Array:
    """`width` & 31 ones from bit `offset` & 31: `V_BFM_B32`."""
    return ((_ONE << (_u32(width) & _31)) - _ONE) << (_u32(offset) & _31)


def bfrev(x: Array) -> Array:
    """Bits in reverse order: `V_BFREV_B32`."""
    x = _u32(x)
    for shift, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        keep, step = np.uint32(mask), np.uint32(shift)
        x = ((x >> step) & keep) | ((x & keep) << step)
    return (x >> np.uint32(16)) | (x << np.uint32(16))


def _highest_bit(x: Array) -> Array:
    """Number of bits needed by uint32 values: 0 for 0, 32 for values with bit 31."""
    _, exponent = np.frexp(_u32(x).astype(np.float64))
    return exponent.astype(np.uint32)


def ffbh_u32(x: Array) -> Array:
    """Leading zeros, all ones for 0: `V_FFBH_U32`."""
    used = _highest_bit(x)
    return np.where(used == 0, _ALL, np.uint32(32) - used)


def ffbh_i32(x: Array) -> Array:
    """Leading bits equal to the sign, all ones when every bit is: `V_FFBH_I32`."""
    return ffbh_u32(_u32(x) ^ (_i32(x) >> np.int32(31)).view(np.uint32))


def ffbl(x: Array) -> Array:
    """Trailing zeros, all ones for 0: `V_FFBL_B32`."""
    x = _u32(x)
    lowest = x & (~x + _ONE)
    return _highest_bit(lowest) - _ONE  # wraps to all ones for 0


def bcnt(x: Array, addend: Array) -> Array:
    """Number of ones plus addend: `V_BCNT_U32_B32`."""
    return np.bitwise_count(_u32(x)).astype(np.uint32) + _u32(addend)


# Permutations of bits and bytes


def alignbit(high: Array, low: Array, shift: Array) -> Array:
    """Low half of {high, low} >> (shift & 31): `V_ALIGNBIT_B32`."""
    pair = (_u64(high) << _32) | _u64(low)
    return _low(pair >> (_u64(shift) & np.uint64(31)))


def alignbyte(high: Array, low: Array, shift: Array) -> Array:
    """Low half of {high, low} >> 8 * (shift & 3): `V_ALIGNBYTE_B32`."""
    return alignbit(high, low, (_u32(shift) & np.uint32(3)) << np.uint32(3))


def perm(high: Array, low: Array, selector: Array) -> Array:
    """Each selector byte picks one byte of {high, low}: `V_PERM_B32`.

    0..7 pick a byte (0 is the lowest of `low`), 8..11 the sign of byte 1, 3, 5
    or 7 in all bits, 12 gives 0x00 and anything above 0xff.
    """
    high, low, selector = _u32(high), _u32(low), _u32(selector)
    shape = np.broadcast_shapes(high.shape, low.shape, selector.shape)
    if selector.size and np.all(selector == selector.flat[0]):
        return _perm_uniform(high, low, int(selector.flat[0]), shape)
    pair = (_u64(high) << _32) | _u64(low)
    result = np.zeros(shape, dtype=np.uint32)
    for byte in range(4):
        choice = ((selector >> np.uint32(8 * byte)) & _BYTE).astype(np.uint64)
        plain = _low((pair >> ((choice & np.uint64(7)) << np.uint64(3))) & np.uint64(0xFF))
        if np.any(choice > 7):
            sign_bit = ((choice & np.uint64(3)) << np.uint64(4)) + np.uint64(15)
            signs = _low((pair >> sign_bit) & np.uint64(1)) * _BYTE
            plain = np.select([choice > 12, choice == 12, choice > 7], [_BYTE, np.uint32(0), signs], plain)
        result |= plain.astype(np.uint32) << np.uint32(8 * byte)
    return result


def _perm_uniform(high: Array, low: Array, selector: int, shape: tuple[int, ...]) -> Array:
    """`perm` with one selector for all lanes: bytes that move by the same distance move together."""
    moves: dict[tuple[int, int], int] = {}  # (operand, distance in bytes) -> mask of result bytes
    result = np.zeros(shape, dtype=np.uint32)
    for byte in range(4):
        choice = selector >> (8 * byte) & 0xFF
        mask = 0xFF << (8 * byte)
        if choice < 8:
            key = (choice >> 2, byte - (choice & 3))
            moves[key] = moves.get(key, 0) | mask
        elif choice < 12:
            source = high if choice > 9 else low
            top = np.uint32(16 * (choice & 1) + 15)
            result |= ((source >> top) & _ONE) * np.uint32(mask)
        elif choice > 12:
            result |= np.uint32(mask)
    for (operand, distance), mask in moves.items():
        source = high if operand else low
        if distance:
            step = np.uint32(8 * abs(distance))
            source = source << step if distance > 0 else source >> step
        result |= source & np.uint32(mask)
    return result


def bitop3(a: Array, b: Array, c: Array, table: int) -> Array:
    """Any boolean function of three words: `V_BITOP3_B32` (gfx950).

    Bit 4 a + 2 b + c of the 8-bit `table` is the result for those three bits.
    """
    if table not in range(256):
        raise ValueError(f"bitop3 table must be 0..255, got {table!r}")
    a, b, c = _u32(a), _u32(b), _u32(c)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), dtype=np.uint32)
    for row in range(8):
        if table >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


# Sums of absolute differences


def _abs_difference(a: Array, b: Array) -> Array:
    return np.maximum(a, b) - np.minimum(a, b)


def _byte_sad(a: Array, b: Array, masked: bool) -> Array:
    total: Array = np.uint32(0)
    for shift in (0, 8, 16, 24):
        x, y = (a >> np.uint32(shift)) & _BYTE, (b >> np.uint32(shift)) & _BYTE
        difference = _abs_difference(x, y)
        total = total + (difference * (y != 0) if masked else difference)
    return total


def sad_u8(a: Array, b: Array, c: Array) -> Array:
    """Sum of the absolute differences of four bytes, plus c: `V_SAD_U8`."""
    return _byte_sad(_u32(a), _u32(b), masked=False) + _u32(c)


def sad_hi_u8(a: Array, b: Array, c: Array) -> Array:
    """The byte sum shifted left by 16, plus c: `V_SAD_HI_U8`."""
    return (_byte_sad(_u32(a), _u32(b), masked=False) << np.uint32(16)) + _u32(c)


def msad_u8(a: Array, b: Array, c: Array) -> Array:
    """As `sad_u8`, leaving out bytes where b is 0: `V_MSAD_U8`."""
    return _byte_sad(_u32(a), _u32(b), masked=True) + _u32(c)


def sad_u16(a: Array, b: Array, c: Array) -> Array:
    """Sum of the absolute differences of two halves, plus c: `V_SAD_U16`."""
    a, b = _u32(a), _u32(b)
    high = np.uint32(16)
    return _abs_difference(a & _HALF, b & _HALF) + _abs_difference(a >> high, b >> high) + _u32(c)


def sad_u32(a: Array, b: Array, c: Array) -> Array:
    """Absolute difference plus c: `V_SAD_U32`."""
    return _abs_difference(_u32(a), _u32(b)) + _u32(c)


def _quad(a: Array, b: Array, masked: bool) -> list[Array]:
    """Byte sums of `b` against the four dwords of uint64 `a` that start at bytes 0 to 3."""
    window, b = np.asarray(a, dtype=np.uint64), _u32(b)
    return [_byte_sad(_low(window >> np.uint64(8 * start)), b, masked) for start in range(4)]


def qsad_pk_u16_u8(a: Array, b: Array, c: Array, masked: bool = False) -> Array:
    """uint64 of four 16-bit sums, c (uint64) added per half word: `V_QSAD_PK_U16_U8`, `V_MQSAD_PK_U16_U8` if masked."""
    addend = np.asarray(c, dtype=np.uint64)
    result: Array = np.uint64(0)
    for place, total in enumerate(_quad(a, b, masked)):
        shift, half = np.uint64(16 * place), np.uint64(0xFFFF)
        result = result | (((total.astype(np.uint64) + (addend >> shift)) & half) << shift)
    return result


def mqsad_u32_u8(a: Array, b: Array, c: Array) -> Array:
    """uint32 [..., 4] of four masked sums plus c (uint32 [..., 4]): `V_MQSAD_U32_U8`."""
    return np.stack(_quad(a, b, masked=True), axis=-1) + _u32(c)


def lerp_u8(a: Array, b: Array, c: Array) -> Array:
    """Per byte (a + b + bit 0 of c) >> 1: `V_LERP_U8`."""
    a, b, c = _u32(a), _u32(b), _u32(c)
    result = np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape), dtype=np.uint32)
    for shift in (0, 8, 16, 24):
        step = np.uint32(shift)
        total = ((a >> step) & _BYTE) + ((b >> step) & _BYTE) + ((c >> step) & _ONE)
        result |= (total >> _ONE) << step
    return result


def ashr_pk(a: Array, b: Array, shift: Array, signed: bool) -> Array:
    """Two arithmetic shifts by shift & 31, saturated to 8 bits, a in the low byte (gfx950).

    `signed` picks `V_ASHR_PK_I8_I32`, otherwise `V_ASHR_PK_U8_I32`; 16 result bits.
    """
    amount = (_u32(shift) & _31).view(np.int32)
    low, high = (_saturate((_i32(x) >> amount).astype(np.int64), 8, signed) for x in (a, b))
    return low | (high << np.uint32(8))
