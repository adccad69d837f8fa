"""Bit-level view of the IEEE binary formats held natively by numpy.

Every other module of this package takes typed numpy arrays (or scalars) of any
mutually broadcastable shapes: `float16`, `float32` or `float64` for the native
formats, unsigned integers for encodings numpy does not know.

NaN results are fixed here and not left to the host: x86 and Arm disagree on
which operand's payload survives and on the sign of the NaN that an invalid
operation creates.  The rule used is the first NaN operand in operand order,
quieted, and otherwise the negative quiet NaN that the CDNA3/CDNA4 ISA manuals
show in their examples (`V_SQRT_F32(-INF) => 0xffc00000`).  The operand order
is *inferred*: the manuals do not state it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy array or numpy scalar.  `Any` because numpy's own stubs do not let a ufunc result be either."""

RNE, TOWARD_POSITIVE, TOWARD_NEGATIVE, TOWARD_ZERO = range(4)
"""Values of the MODE register's FP_ROUND fields (ISA manual, section "MODE register")."""


@dataclass(frozen=True)
class FloatKind:
    """Masks and limits of one native format, as scalars of its own dtypes."""

    name: str
    float_type: type[np.floating[Any]]
    uint_type: type[np.unsignedinteger[Any]]
    mantissa_bits: int
    exponent_bits: int

    def _uint(self, value: int) -> Any:
        return self.uint_type(value)

    def __post_init__(self) -> None:
        man, exp = self.mantissa_bits, self.exponent_bits
        set_field = object.__setattr__
        set_field(self, "bias", (1 << (exp - 1)) - 1)
        set_field(self, "exponent_max", (1 << exp) - 1)
        set_field(self, "sign", self._uint(1 << (man + exp)))
        set_field(self, "magnitude", self._uint((1 << (man + exp)) - 1))
        set_field(self, "mantissa", self._uint((1 << man) - 1))
        set_field(self, "infinity_bits", self._uint(((1 << exp) - 1) << man))
        set_field(self, "quiet", self._uint(1 << (man - 1)))
        set_field(self, "default_nan_bits", self._uint((1 << (man + exp)) | (((1 << (exp + 1)) - 1) << (man - 1))))
        set_field(self, "max_bits", self._uint((((1 << exp) - 1) << man) - 1))
        set_field(self, "tiny", self._uint(1 << man).view(self.float_type))
        set_field(self, "max", self.max_bits.view(self.float_type))
        set_field(self, "inf", self.infinity_bits.view(self.float_type))
        set_field(self, "default_nan", self.default_nan_bits.view(self.float_type))

    bias: int = 0
    exponent_max: int = 0
    sign: Any = None
    magnitude: Any = None
    mantissa: Any = None
    infinity_bits: Any = None
    quiet: Any = None
    default_nan_bits: Any = None
    max_bits: Any = None
    tiny: Any = None
    max: Any = None
    inf: Any = None
    default_nan: Any = None


F16 = FloatKind("f16", np.float16, np.uint16, 10, 5)
F32 = FloatKind("f32", np.float32, np.uint32, 23, 8)
F64 = FloatKind("f64", np.float64, np.uint64, 52, 11)

_KINDS: dict[Any, FloatKind] = {np.dtype(kind.float_type): kind for kind in (F16, F32, F64)}


def kind_of(x: Array) -> FloatKind:
    """The `FloatKind` of a float16, float32 or float64 array; TypeError for any other dtype."""
    try:
        return _KINDS[x.dtype]
    except (KeyError, AttributeError):
        got = getattr(x, "dtype", type(x))
        raise TypeError(f"expected a float16, float32 or float64 array, got {got}: view the bits first") from None


def to_bits(x: Array) -> Array:
    """The bit patterns of a float array (uint16, uint32 or uint64); a view when `x` is an array."""
    return np.asarray(x).view(kind_of(x).uint_type)


def exponent_field(x: Array) -> Array:
    """Biased exponent field as int64, the `exponent()` of the ISA's pseudocode (0 for zero and denormals)."""
    kind = kind_of(x)
    return ((to_bits(x) & kind.magnitude) >> kind.uint_type(kind.mantissa_bits)).astype(np.int64)


def is_nan(x: Array) -> Array:
    """True where `x` is NaN of either sort."""
    return x != x


def is_signalling(x: Array) -> Array:
    """True where `x` is a signalling NaN (most significant mantissa bit clear)."""
    return (x != x) & ((to_bits(x) & kind_of(x).quiet) == 0)


def is_denormal(x: Array) -> Array:
    """True where `x` is a non-zero denormal."""
    kind = kind_of(x)
    magnitude = to_bits(x) & kind.magnitude
    return (magnitude != 0) & (magnitude <= kind.mantissa)


def quiet_nan(x: Array) -> Array:
    """`x` with every signalling NaN made quiet: sign and payload kept."""
    kind = kind_of(x)
    signalling = is_signalling(x)
    if not signalling.any():
        return x
    return (to_bits(x) | signalling * kind.quiet).view(kind.float_type)


def flush_denormals(x: Array) -> Array:
    """`x` with denormals replaced by zeros of the same sign."""
    denormal = is_denormal(x)
    if not denormal.any():
        return x
    kind = kind_of(x)
    return np.where(denormal, to_bits(x) & kind.sign, to_bits(x)).astype(kind.uint_type).view(kind.float_type)


def has_nan(x: Array) -> bool:
    """Is any element NaN? The sum of the squares, which are all positive, is NaN then and only then."""
    if x.dtype == np.float16:
        return bool((x != x).any())
    squares = np.vdot(x, x)
    return bool(squares != squares)


def settle_nans(result: Array, *operands: Array) -> Array:
    """`result` with every NaN replaced by the one that the module docstring's rule gives.

    `operands` are the sources in operand order, broadcastable to `result`.  They
    may be of another native format than `result`: the payload is then converted
    by keeping its most significant bits.
    """
    if not has_nan(result):
        return result
    nan = result != result
    kind = kind_of(result)
    fixed = np.array(result)
    where = np.nonzero(np.atleast_1d(nan))
    flat = np.full(len(where[0]), kind.default_nan_bits, dtype=kind.uint_type)
    for operand in reversed(operands):
        lanes = np.atleast_1d(np.broadcast_to(operand, fixed.shape))[where]
        lane_nan = lanes != lanes
        flat[lane_nan] = _nan_payload(lanes[lane_nan], kind)
    np.atleast_1d(fixed.view(kind.uint_type))[where] = flat
    return fixed


def _nan_payload(nans: Array, target: FloatKind) -> Array:
    source = kind_of(nans)
    bits = to_bits(nans).astype(np.uint64)
    sign = (bits >> np.uint64(source.mantissa_bits + source.exponent_bits)) & np.uint64(1)
    payload = bits & np.uint64(source.mantissa)
    shift = target.mantissa_bits - source.mantissa_bits
    payload = payload << np.uint64(shift) if shift >= 0 else payload >> np.uint64(-shift)
    out = (sign << np.uint64(target.mantissa_bits + target.exponent_bits)) | payload
    out |= np.uint64(target.infinity_bits) | np.uint64(target.quiet)
    return out.astype(target.uint_type)
