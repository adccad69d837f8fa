"""Atomic read-modify-writes of every operation and type, their returned values, scopes and orders."""

import numpy as np
import torch
import triton
import triton.language as tl

from tests.flydsl_programs import compare

from .driver import Device

SLOTS, BLOCK, GROUPS = 64, 256, 2
SIZE = BLOCK * GROUPS - 12


@triton.jit
def atomic_kernel(x, slots, old, n, OP: tl.constexpr, ORDER: tl.constexpr, SCOPE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < n
    a = tl.load(x + i, mask=inside)
    at = slots + i % 64
    if OP == "add":
        r = tl.atomic_add(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "max":
        r = tl.atomic_max(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "min":
        r = tl.atomic_min(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "and":
        r = tl.atomic_and(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "or":
        r = tl.atomic_or(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "xor":
        r = tl.atomic_xor(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    elif OP == "xchg":
        r = tl.atomic_xchg(at, a, mask=inside, sem=ORDER, scope=SCOPE)
    tl.store(old + i, r, mask=inside)


@triton.jit
def add_kernel(x, slots, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.atomic_add(slots + i % 64, tl.load(x + i, mask=i < n), mask=i < n, sem="relaxed")


@triton.jit
def compare_swap_kernel(slots, expected, old, B: tl.constexpr):
    i = tl.arange(0, B)
    e = tl.load(expected + i)
    tl.store(old + i, tl.atomic_cas(slots + i, e, e + 100))


@triton.jit
def ticket_kernel(counter, tickets):
    tl.store(tickets + tl.program_id(0), tl.atomic_add(counter, 1, sem="acq_rel"))


PLAN = (
    ("add", torch.int32, "relaxed", "gpu"),
    ("add", torch.int64, "acq_rel", "cta"),
    ("add", torch.float32, "acquire", "sys"),
    ("add", torch.float64, "release", "gpu"),
    ("add", torch.float16, "relaxed", "gpu"),
    ("add", torch.bfloat16, "relaxed", "gpu"),
    ("max", torch.int32, "relaxed", "sys"),
    ("max", torch.uint32, "relaxed", "gpu"),
    ("max", torch.float32, "relaxed", "gpu"),
    ("min", torch.int64, "acq_rel", "gpu"),
    ("min", torch.float64, "relaxed", "gpu"),
    ("and", torch.int32, "relaxed", "gpu"),
    ("or", torch.uint64, "relaxed", "gpu"),
    ("xor", torch.int64, "relaxed", "gpu"),
    ("xchg", torch.int32, "acq_rel", "sys"),
    ("xchg", torch.float64, "relaxed", "gpu"),
)
"""Operation, element type, memory order, scope."""

_FOLD = {
    "add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}  # fmt: skip


def _case(name: str, wrong: list[str]) -> compare.Case:
    return compare.Case(name, not wrong, 0.0, "; ".join(wrong[:3]))


def _read_modify_write(
    generator: torch.Generator, device: Device, op: str, dtype: torch.dtype, *how: str
) -> compare.Case:
    """Values are integers, so any order of additions gives the same sum; the returned values must form a chain."""
    unsigned = dtype in (torch.uint32, torch.uint64)
    low = 0 if unsigned else -20
    x = compare.small_integers(generator, (GROUPS * BLOCK,), low, 20).to(dtype)
    slots = compare.small_integers(generator, (SLOTS,), low, 20).to(dtype)
    first, old = slots.tolist(), torch.zeros(GROUPS * BLOCK, dtype=dtype)
    device.launch(
        atomic_kernel, (GROUPS,), x=x, slots=slots, old=old, n=SIZE, OP=op, ORDER=how[0], SCOPE=how[1], B=BLOCK
    )
    wrong = []
    for slot in range(SLOTS):
        mine = range(slot, SIZE, SLOTS)
        given, returned, final = [x[i].item() for i in mine], [old[i].item() for i in mine], slots[slot].item()
        if op == "xchg":  # every value ever stored but the last is returned once
            chain = sorted([*returned, final]) == sorted([*given, first[slot]])
        else:
            want = first[slot]
            for value in given:
                want = _FOLD[op](want, value)
            # what each operation left is what the next one found
            left = [_FOLD[op](was, value) for was, value in zip(returned, given, strict=True)]
            chain = final == want and sorted([*left, first[slot]]) == sorted([*returned, final])
        if not chain:
            wrong.append(f"slot {slot}: {first[slot]} became {final}, returned {returned} for {given}")
    return _case(f"atomic {op} {dtype} {' '.join(how)}", wrong)


def _without_return(generator: torch.Generator, device: Device, dtype: torch.dtype) -> compare.Case:
    x = compare.small_integers(generator, (GROUPS * BLOCK,), -8, 8).to(dtype)
    slots = torch.zeros(SLOTS, dtype=dtype)
    device.launch(add_kernel, (GROUPS,), x=x, slots=slots, n=SIZE, B=BLOCK)
    used = torch.where(torch.arange(GROUPS * BLOCK) < SIZE, x.double(), 0.0)
    return compare.exact(f"atomic add without return {dtype}", slots, used.reshape(-1, SLOTS).sum(0).to(dtype))


def _compare_swap(device: Device, dtype: torch.dtype) -> list[compare.Case]:
    slots = torch.arange(SLOTS).to(dtype)
    expected = torch.where(torch.arange(SLOTS) % 3 == 0, torch.arange(SLOTS), torch.arange(SLOTS) + 1).to(dtype)
    before, old = slots.clone(), compare.poisoned((SLOTS,), dtype)
    device.launch(compare_swap_kernel, (1,), slots=slots, expected=expected, old=old, B=SLOTS, options={"num_warps": 1})
    want = torch.where(before == expected, expected + 100, before)
    return [compare.exact(f"cas returns {dtype}", old, before), compare.exact(f"cas {dtype}", slots, want)]


def run(generator: torch.Generator, device: Device) -> list[compare.Case]:
    cases = [_read_modify_write(generator, device, *entry) for entry in PLAN]
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64):
        cases.append(_without_return(generator, device, dtype))
    for dtype in (torch.int32, torch.int64, torch.float32, torch.float64):
        cases += _compare_swap(device, dtype)
    counter, tickets = torch.zeros(1, dtype=torch.int32), compare.poisoned((37,), torch.int32)
    device.launch(ticket_kernel, (37,), counter=counter, tickets=tickets)
    cases.append(_case("tickets", [] if np.array_equal(np.sort(tickets.numpy()), np.arange(37)) else [str(tickets)]))
    return cases
