"""Requirements that several entry points share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import torch

from hcgr import arch as arch_table
from hcgr import requirements as must
from hcgr.plan import WAVE_COLUMNS
from hcgr.requirements import Problem

HC_COUNTS = (2, 4, 8)
ACTIVATION_DTYPES = (torch.bfloat16,)
NORM_WEIGHT_DTYPES = (torch.bfloat16, torch.float32)


def present(problems: Iterable[Problem | None]) -> list[Problem]:
    """The requirements of a group that are broken."""
    return [problem for problem in problems if problem is not None]


def raise_first(problems: Iterable[Problem]) -> None:
    """Raise the first problem, if there is one."""
    for problem in problems:
        raise problem.exception()


class Accepted:
    """Calls that a contract has accepted, so that an equal one is not checked again: decode repeats its calls.

    A check may be remembered if it depends only on what a signature holds: each tensor's metadata, the alignment
    of its address and that there is one, and the other arguments. Checks of output buffers compare addresses.

    Args:
        check: Raises for a call that breaks the contract.
        size: Most calls remembered; all are forgotten when one more comes.
    """

    def __init__(self, check: Callable[..., None], size: int = 4096) -> None:
        self._check, self._size = check, size
        self._calls: set[Hashable] = set()

    def __call__(self, *arguments: Any) -> None:
        """Raise unless the contract accepts `arguments`."""
        call = tuple([_signature(value) if isinstance(value, torch.Tensor) else value for value in arguments])
        if call in self._calls:
            return
        self._check(*arguments)
        if len(self._calls) >= self._size:
            self._calls.clear()
        self._calls.add(call)


def _signature(tensor: torch.Tensor) -> Hashable:
    address = tensor.data_ptr()
    aligned = address % must.VECTOR_BYTES if address else None
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.device, aligned


def arch_problems(arch: str | None) -> Iterator[Problem]:
    """`arch` has kernels; ``None`` leaves that to the launch."""
    if arch is not None and arch.split(":", 1)[0].lower() not in arch_table.ARCHS:
        accepted = f"one of {', '.join(arch_table.ARCHS)} ({arch_table.CPU_ONLY_HINT})"
        yield Problem("arch", accepted, repr(arch), NotImplementedError)


def device_problems(tensors: dict[str, torch.Tensor]) -> Iterator[Problem]:
    """Every tensor is on the device of the first."""
    reference = next(iter(tensors))
    device = tensors[reference].device
    yield from present(must.same_device(name, tensor, reference, device) for name, tensor in tensors.items())


def memory_problems(tensors: dict[str, torch.Tensor], addresses: bool) -> Iterator[Problem]:
    """Every tensor has memory, where `addresses` may be read."""
    if addresses:
        yield from present(must.has_memory(name, tensor) for name, tensor in tensors.items())


def tensor_problems(tensors: dict[str, Any]) -> Iterator[Problem]:
    """Every argument is a tensor; what an operator's schema would refuse without naming what is accepted."""
    yield from present(must.is_tensor(name, value) for name, value in tensors.items())


def stream_problems(stream: Any, residual: Any) -> Iterator[Problem]:
    """`stream` belongs to the device of `residual`."""
    if isinstance(residual, torch.Tensor):
        yield from present([must.on_device("stream", stream, residual.device)])


def residual_problems(residual: torch.Tensor, hc_count: int, name: str = "residual") -> Iterator[Problem]:
    """`residual`, the argument `name`, is bf16 [M, HC*HS] with a stream width HS that the kernels tile."""
    broken = present(
        [
            must.dtype_in(name, residual, ACTIVATION_DTYPES),
            must.rank_is(name, residual, 2, "[M, HC*HS]"),
        ]
    )
    yield from broken
    if broken:
        return
    unit = hc_count * WAVE_COLUMNS
    width = residual.shape[1]
    if width == 0 or width % unit:
        accepted = f"of a width HC*HS where HS is a positive multiple of {WAVE_COLUMNS} (HC*HS of {unit})"
        given = f"width {width} with hc_count={hc_count}, HS={width / hc_count:g}"
        yield Problem(name, accepted, given)


def norm_weight_problems(norm_weight: torch.Tensor, hc_count: int, hs: int) -> Iterator[Problem]:
    """`norm_weight` is bf16 or float32, [HS] shared by all streams or [HC*HS]."""
    yield from present(
        [
            must.dtype_in("norm_weight", norm_weight, NORM_WEIGHT_DTYPES),
            must.shape_in("norm_weight", norm_weight, [hs], [hc_count * hs], meaning="[HS] or [HC*HS]"),
        ]
    )


def row_matrix_problems(name: str, tensor: torch.Tensor) -> Iterator[Problem]:
    """A matrix read in 16-byte vectors: contiguous rows, at any row stride that keeps them aligned."""
    yield from present([must.inner_contiguous(name, tensor), must.vector_row_stride(name, tensor)])


def output_problems(
    name: str,
    out: torch.Tensor,
    shape: Iterable[int],
    meaning: str,
    dtype: torch.dtype,
    others: dict[str, torch.Tensor],
    addresses: bool,
) -> Iterator[Problem]:
    """A caller's output buffer: shape, dtype, layout and autograd, and disjoint from inputs and other outputs."""
    broken = present(
        [
            must.dtype_in(name, out, [dtype]),
            must.shape_in(name, out, tuple(shape), meaning=meaning),
            must.contiguous(name, out),
            must.resolved(name, out),
            must.untracked(name, out),
        ]
    )
    yield from broken
    if addresses and not broken:
        yield from present([must.vector_aligned(name, out)])
        yield from present(must.disjoint(name, out, other, tensor) for other, tensor in others.items())


def vector_read_problems(tensors: dict[str, torch.Tensor], addresses: bool) -> Iterator[Problem]:
    """Each tensor is contiguous and, where `addresses` may be read, starts 16 bytes aligned."""
    broken = present(must.contiguous(name, tensor) for name, tensor in tensors.items())
    yield from broken
    if addresses and not broken:
        yield from present(must.vector_aligned(name, tensor) for name, tensor in tensors.items())


def in_groups(*groups: Callable[[], Iterable[Problem]]) -> Iterator[Problem]:
    """The problems of the first group that has any: a group sees only what the groups before it accepted."""
    for group in groups:
        broken = False
        for problem in group():
            broken = True
            yield problem
        if broken:
            return
