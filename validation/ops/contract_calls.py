"""Machinery of the contract rows: a legal call, what makes it illegal, and the tensors that may not change."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest import mock

import torch

from oracle.guards import poison
from validation.operation import Bench, ContractCall

BF16 = torch.bfloat16
Arguments: TypeAlias = dict[str, Any]
#: From a maker to the arguments of an illegal call.
Mutation: TypeAlias = Callable[["Maker"], Arguments]
_POISONED = (BF16, torch.float32)
#: What FlyDSL is made to answer as its target, by row: the emulator itself would refuse to be one.
_TARGETS = {"other_arch": "gfx90a"}


@dataclass(frozen=True)
class Maker:
    """Makes tensors on a bench, and the legal arguments of an entry point by ``base``."""

    bench: Bench
    base: Callable[[Maker, int], Arguments]
    m: int

    def tensor(self, name: str, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        """A tensor of halves."""
        tensor: torch.Tensor = self.bench.empty(shape, dtype, name)
        tensor.fill_(0.5)
        self.bench.filled(tensor)
        return tensor

    def buffer(self, name: str, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        """A poisoned output buffer."""
        tensor: torch.Tensor = self.bench.empty(shape, dtype, name)
        return poison(tensor) if dtype in _POISONED else tensor

    def legal(self, m: int | None = None) -> Arguments:
        """A legal call of ``m`` rows."""
        return self.base(self, self.m if m is None else m)


def replaced(name: str, *shape: int, dtype: torch.dtype = BF16) -> Mutation:
    """The legal call with another tensor as argument ``name``."""
    return lambda make: make.legal() | {name: make.tensor(name, *shape, dtype=dtype)}


def given(m: int | None = None, **values: Any) -> Mutation:
    """The legal call of ``m`` rows with other values."""
    return lambda make: make.legal(m) | values


def retyped(name: str, dtype: torch.dtype) -> Mutation:
    """Argument ``name`` in another dtype."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal()
        return arguments | {name: make.tensor(name, *arguments[name].shape, dtype=dtype)}

    return mutate


def resized(name: str, m: int | None = None, **changes: int) -> Mutation:
    """Argument ``name`` with ``d0``, ``d1`` added to its sizes."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal(m)
        old = arguments[name]
        shape = [size + changes.get(f"d{axis}", 0) for axis, size in enumerate(old.shape)]
        return arguments | {name: make.tensor(name, *shape, dtype=old.dtype)}

    return mutate


def elsewhere(name: str, m: int | None = None) -> Mutation:
    """Argument ``name`` on another device."""
    return lambda make: (lambda a: a | {name: torch.empty_like(a[name], device="meta")})(make.legal(m))


def transposed(name: str, m: int | None = None) -> Mutation:
    """Argument ``name`` in column-major order."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal(m)
        old = arguments[name]
        return arguments | {name: make.tensor(name, old.shape[1], old.shape[0], dtype=old.dtype).t()}

    return mutate


def spaced(name: str, gap: int) -> Mutation:
    """Argument ``name`` with ``gap`` elements between its rows."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal()
        rows, columns = arguments[name].shape
        wide = make.tensor(name, rows, columns + gap, dtype=arguments[name].dtype)
        return arguments | {name: wide[:, :columns]}

    return mutate


def unaligned(name: str) -> Mutation:
    """Argument ``name`` starting one element behind a 16-byte unit."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal()
        shape, dtype = arguments[name].shape, arguments[name].dtype
        count = math.prod(shape)
        return arguments | {name: make.tensor(name, count + 8, dtype=dtype)[1 : count + 1].view(shape)}

    return mutate


def sharing(output: str, other: str, m: int | None = None) -> Mutation:
    """Buffer ``output`` and tensor ``other`` share the last element of the one and the first row of the other."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal(m)
        first, second = arguments[output], arguments[other]
        size = first.numel() * first.element_size(), second.numel() * second.element_size()
        store = make.tensor("store", (sum(size)) // 2)
        behind = size[0] // 2 - 8
        shared = {
            output: store[: size[0] // 2].view(first.dtype).view(first.shape),
            other: store[behind : behind + size[1] // 2].view(second.dtype).view(second.shape),
        }
        return arguments | shared

    return mutate


def tracked(name: str) -> Mutation:
    """Buffer ``name`` as a leaf of autograd, in a call that autograd records."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal()
        return arguments | {name: arguments[name].detach().requires_grad_()}

    return mutate


def every_other(name: str) -> Mutation:
    """Argument ``name``, a vector, with a gap behind each element."""

    def mutate(make: Maker) -> Arguments:
        arguments = make.legal()
        old = arguments[name]
        return arguments | {name: make.tensor(name, 2 * old.shape[0], dtype=old.dtype)[::2]}

    return mutate


def sparse(name: str) -> Mutation:
    """Argument ``name`` in a sparse layout."""
    return lambda make: (lambda a: a | {name: a[name].to_sparse()})(make.legal())


def dense(arguments: Arguments) -> tuple[tuple[str, torch.Tensor], ...]:
    """The tensors among ``arguments`` whose bytes can be looked at."""
    return tuple(
        (name, value)
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor) and value.device.type != "meta" and value.layout is torch.strided
    )


def operator_call(name: str, arguments: Arguments) -> Any:
    """Call the operator ``hcgr::name``, which a graph calls past the public function, with those it knows of
    ``arguments``; the public function's defaults for the rest."""
    operator = getattr(torch.ops.hcgr, name)
    known = [argument.name for argument in operator.default._schema.arguments]
    return operator(**{argument: arguments.get(argument, _DEFAULTS.get(argument)) for argument in known})


#: Defaults of the public functions, in the operators' terms (``split_k=0`` is "auto"); the rest is ``None``.
_DEFAULTS = {"eps": 1e-6, "fold_w": False, "split_k": 0, "use_tuned": True}
#: Rows of this prefix call the operator itself.
OPERATOR = "operator_"


def foreign_stream(make: Maker) -> Arguments:
    """A stream of another device."""
    return make.legal() | {"stream": SimpleNamespace(device=torch.device("cuda", 1), cuda_stream=0)}


def contract_call(
    row: str,
    function: Callable[..., Any],
    make: Maker,
    mutations: Mapping[str, Mutation],
    verify: Callable[[Arguments, Any], str | None],
    operator: str,
) -> ContractCall:
    """The call of ``row``; every real tensor among its arguments may not change.

    ``verify`` looks at the arguments and the result of a call that must succeed. ``operator`` is the one behind
    ``function``, without a buffer of the caller's.
    """
    if row not in mutations:
        raise LookupError(f"contract row {row!r} has no call (there are: {', '.join(mutations)})")
    arguments = mutations[row](make)

    def call() -> Any:
        with ExitStack() as stack:
            if row in _TARGETS:
                stack.enter_context(mock.patch("hcgr.arch.configured", return_value=_TARGETS[row]))
            return operator_call(operator, arguments) if row.startswith(OPERATOR) else function(**arguments)

    return ContractCall(call, dense(arguments), lambda result: verify(arguments, result))


def wrong_form(name: str, tensor: Any, shape: tuple[int, ...], row_stride: int | None = None) -> str | None:
    """What is wrong with an empty bf16 result."""
    if tensor is None or tuple(tensor.shape) != shape or tensor.dtype != BF16:
        given = None if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"
        return f"{name} is {given}, must be {BF16} {shape}"
    if row_stride is not None and tensor.stride(0) != row_stride:
        return f"{name} has row stride {tensor.stride(0)}, must have {row_stride}"
    return None
