"""Single requirements on arguments, each answering with a :class:`Problem` or ``None``.

They only look at metadata, except those that say they read addresses, so they work on fake and meta tensors
too. :mod:`hcgr.contract` composes them into the contract of an entry point.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

#: Alignment of the kernels' vector accesses, in bytes.
VECTOR_BYTES = 16
FLOAT32 = torch.finfo(torch.float32)


@dataclass(frozen=True)
class Problem:
    """One broken requirement.

    Attributes:
        argument: Name of the argument as the public function spells it.
        accepted: What would have been accepted.
        given: What was given.
        error: The exception class the entry points raise for it.
    """

    argument: str
    accepted: str
    given: str
    error: type[Exception] = ValueError

    def __str__(self) -> str:
        return f"{self.argument} must be {self.accepted}, got {self.given}"

    def exception(self) -> Exception:
        """The exception to raise."""
        return self.error(str(self))


#: Characters of a value in a message.
SHOWN = 80


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def shown(value: Any) -> str:
    """``repr`` without the address that the default one ends with, so that a message is the same in every run; the
    beginning of a long one."""
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {shown(value)}"
    return f"{_dtype_name(value.dtype)} {list(value.shape)}"


def is_tensor(name: str, value: Any) -> Problem | None:
    """`value` is a dense tensor."""
    if not isinstance(value, torch.Tensor):
        return Problem(name, "a tensor", _describe(value), TypeError)
    if value.layout is not torch.strided:
        return Problem(name, "a dense (strided) tensor", f"layout {value.layout}")
    if value.is_nested or value.is_quantized:
        return Problem(name, "a dense (strided) tensor", "a nested one" if value.is_nested else "a quantized one")
    return None


def has_memory(name: str, tensor: torch.Tensor) -> Problem | None:
    """The storage of `tensor` has not been freed under it, as sharded parameters are. Reads the address."""
    if tensor.numel() == 0 or tensor.data_ptr() != 0:
        return None
    return Problem(name, "a tensor with memory", f"{_describe(tensor)} whose storage was freed")


def resolved(name: str, tensor: torch.Tensor) -> Problem | None:
    """A buffer holds what is written to it: no view that negates or conjugates on the way."""
    if not (tensor.is_neg() or tensor.is_conj()):
        return None
    view = "negated" if tensor.is_neg() else "conjugated"
    return Problem(name, "a buffer itself, no negated or conjugated view of one", f"a {view} view")


def one_of(name: str, value: Any, accepted: Sequence[int]) -> Problem | None:
    """`value` is one of some integers; a bool is not an integer here."""
    if isinstance(value, int) and not isinstance(value, bool) and value in accepted:
        return None
    return Problem(name, f"one of {', '.join(map(str, accepted))}", shown(value))


def is_bool(name: str, value: Any) -> Problem | None:
    """`value` is True or False."""
    return None if isinstance(value, bool) else Problem(name, "True or False", shown(value))


def positive_integer(name: str, value: Any) -> Problem | None:
    """`value` is an integer above zero, maybe a symbolic one; a bool is not an integer here."""
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool) and value > 0:
        return None
    return Problem(name, "a positive integer", shown(value))


def normal_float32(name: str, value: Any) -> Problem | None:
    """`value` is a number above zero that float32 holds as a normal, finite one.

    Kernels get it as float32, where a smaller one is 0, or a denormal that ``v_rsq_f32`` takes for 0 (CDNA3 ISA).
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and FLOAT32.tiny <= value <= FLOAT32.max:
        return None
    accepted = f"a finite number above 0 in the normal range of float32, {FLOAT32.tiny:.8g} to {FLOAT32.max:.8g}"
    return Problem(name, accepted, shown(value))


def dtype_in(name: str, tensor: torch.Tensor, dtypes: Sequence[torch.dtype]) -> Problem | None:
    """`tensor` has one of `dtypes`."""
    if tensor.dtype in dtypes:
        return None
    return Problem(name, f"of dtype {' or '.join(map(_dtype_name, dtypes))}", _describe(tensor))


def shape_in(name: str, tensor: torch.Tensor, *shapes: Sequence[int], meaning: str) -> Problem | None:
    """`tensor` has one of `shapes`; `meaning` spells them in symbols, as ``[M, HS]``."""
    if any(tuple(tensor.shape) == tuple(shape) for shape in shapes):
        return None
    numbers = " or ".join(str(list(shape)) for shape in shapes)
    return Problem(name, f"of shape {meaning} = {numbers}", _describe(tensor))


def rank_is(name: str, tensor: torch.Tensor, rank: int, meaning: str) -> Problem | None:
    """`tensor` has `rank` dimensions."""
    if tensor.dim() == rank:
        return None
    return Problem(name, f"of rank {rank}, {meaning}", _describe(tensor))


def same_device(name: str, tensor: torch.Tensor, reference: str, device: torch.device) -> Problem | None:
    """`tensor` is on `device`, that of the argument `reference`."""
    if tensor.device == device:
        return None
    return Problem(name, f"on {device}, the device of {reference}", str(tensor.device))


def inner_contiguous(name: str, tensor: torch.Tensor) -> Problem | None:
    """The last dimension has stride 1 (any stride where it has one element)."""
    if tensor.shape[-1] == 1 or tensor.stride(-1) == 1:
        return None
    return Problem(name, "contiguous in its last dimension (stride 1)", f"strides {list(tensor.stride())}")


def contiguous(name: str, tensor: torch.Tensor) -> Problem | None:
    """The whole tensor is contiguous."""
    if tensor.is_contiguous():
        return None
    given = f"shape {list(tensor.shape)} with strides {list(tensor.stride())}"
    return Problem(name, "contiguous", given)


def row_stride(tensor: torch.Tensor) -> int:
    """Row stride of a matrix in elements; 0 where it has at most one row, since no row follows."""
    return tensor.stride(0) if tensor.shape[0] > 1 else 0


def vector_row_stride(name: str, tensor: torch.Tensor) -> Problem | None:
    """Rows of a matrix start 16 bytes aligned relative to each other."""
    elements = VECTOR_BYTES // tensor.element_size()
    stride = row_stride(tensor)
    if stride % elements == 0:
        return None
    return Problem(name, f"of a row stride that is a multiple of {elements} elements", str(stride))


def vector_aligned(name: str, tensor: torch.Tensor) -> Problem | None:
    """The first element is 16 bytes aligned. Reads the address."""
    if tensor.numel() == 0 or tensor.data_ptr() % VECTOR_BYTES == 0:
        return None
    past = tensor.data_ptr() % VECTOR_BYTES
    given = f"an address {past} bytes past such a one (storage offset {tensor.storage_offset()} elements)"
    return Problem(name, f"aligned to {VECTOR_BYTES} bytes", given)


def untracked(name: str, tensor: torch.Tensor) -> Problem | None:
    """A buffer may be written: autograd does not record what happens to it."""
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return None
    return Problem(name, "a buffer without requires_grad, or in a call under torch.no_grad()", "requires_grad=True")


def byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and one past the last that `tensor` can touch; equal for an empty one. Reads the address."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


def disjoint(name: str, tensor: torch.Tensor, other_name: str, other: torch.Tensor) -> Problem | None:
    """The byte ranges of two tensors do not meet; interleaving with the gaps of a strided view counts as
    meeting.

    Reads addresses.
    """
    (begin, end), (other_begin, other_end) = byte_range(tensor), byte_range(other)
    if begin == end or other_begin == other_end or end <= other_begin or other_end <= begin:
        return None
    first = max(begin, other_begin)
    given = (
        f"an overlap of {min(end, other_end) - first} bytes, from byte {first - begin} of {name} "
        f"and byte {first - other_begin} of {other_name}"
    )
    return Problem(name, f"disjoint from {other_name}", given)


def on_device(name: str, stream: Any, device: torch.device) -> Problem | None:
    """`stream` is ``None`` or a stream of `device`: an object with ``device`` and an integer ``cuda_stream``."""
    if stream is None:
        return None
    stream_device: Any = getattr(stream, "device", None)
    known = isinstance(stream_device, torch.device) and hasattr(stream, "cuda_stream")
    # torch's own streams have a handle, and tracers need not read it
    if not known or (stream_device.type != "cuda" and not isinstance(stream.cuda_stream, int)):
        return Problem(name, "None or a torch.cuda.Stream", _describe(stream), TypeError)
    if stream_device.type == device.type and (stream_device.index or 0) == (device.index or 0):
        return None
    accepted = f"None or a stream of {device}, the device of the tensors"
    return Problem(name, accepted, f"a stream of {stream_device}")
