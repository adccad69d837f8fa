"""Every shortcut of the ordered application must agree, bit for bit, with doing one lane after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.emulator.isa.atomic_ops import ADD_F32, ADD_F64, INTEGER, MAX_F32, MIN_F64, PK_ADD_BF16, PK_ADD_F16
from validation.emulator.memory.atomics import AtomicOp, apply_in_order

OPS = [*INTEGER[4].values(), *INTEGER[8].values(), ADD_F32, ADD_F64, MAX_F32, MIN_F64, PK_ADD_F16, PK_ADD_BF16]


def one_by_one(
    op: AtomicOp, key: np.ndarray, memory: np.ndarray, operands: list[np.ndarray]
) -> tuple[Any, dict[int, Any]]:
    state = {int(k): memory[i : i + 1].copy() for i, k in enumerate(key)}
    old = []
    for i, k in enumerate(key):
        old.append(state[int(k)].copy())
        state[int(k)] = np.asarray(op.fn(state[int(k)], *[x[i : i + 1] for x in operands]), op.dtype)
    return np.concatenate(old), state


def arguments(op: AtomicOp, keys: list[int], seed: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    key = np.array(keys, np.int64)
    unsigned = np.dtype(f"u{op.nbytes}")
    pool = rng.integers(0, 1 << 62, 64).astype(unsigned)
    if np.dtype(op.dtype).kind == "f":
        floats = (rng.standard_normal(64) * 10.0 ** rng.integers(-5, 6, 64)).astype(op.dtype)
        floats[:6] = [0.0, -0.0, np.inf, np.finfo(op.dtype).tiny / 8, -np.inf if seed % 3 == 0 else 2.0,
                      np.nan if seed % 5 == 0 else 1.0]  # fmt: skip
        pool = floats.view(unsigned)
    by_key = {k: pool[rng.integers(64)] for k in keys}
    memory = np.array([by_key[k] for k in keys], unsigned).view(op.dtype)
    count = 2 if op.name == "cmpswap" else 1
    return key, memory, [pool[rng.integers(0, 64, len(keys))].view(op.dtype) for _ in range(count)]


@pytest.mark.parametrize("op", OPS, ids=lambda op: f"{op.name}-{op.nbytes}")
@settings(max_examples=25, deadline=None)
@given(keys=st.lists(st.integers(0, 12), min_size=1, max_size=90), seed=st.integers(0, 1000))
def test_agrees_with_sequence(op: AtomicOp, keys: list[int], seed: int) -> None:
    key, memory, operands = arguments(op, keys, seed)
    bits = np.dtype(f"u{op.nbytes}")
    with np.errstate(all="ignore"):
        expected_old, final = one_by_one(op, key, memory, operands)
        for want_old in (True, False):
            old, lanes, after = apply_in_order(op, key, memory, operands, want_old)
            if want_old or old is not None:
                assert np.array_equal(np.asarray(old).view(bits), expected_old.view(bits))
            assert sorted(int(k) for k in key[lanes]) == sorted(final)
            for lane, value in zip(lanes, after, strict=True):
                assert value.view(bits) == final[int(key[lane])].view(bits)[0]


def test_far_keys_do_not_overflow_the_packed_sort() -> None:
    key = np.array([1 << 60, 5, 1 << 60, 5, 0], np.int64)
    memory = np.zeros(5, np.uint32)
    old, lanes, after = apply_in_order(INTEGER[4]["add"], key, memory, [np.arange(1, 6, dtype=np.uint32)])
    assert np.asarray(old).tolist() == [0, 0, 1, 2, 0]
    assert dict(zip(key[lanes].tolist(), after.tolist(), strict=True)) == {0: 5, 5: 6, 1 << 60: 4}
