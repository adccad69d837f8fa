"""Hashes of what a case computed, taken from the bytes of its outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


def hashes(results: Mapping[str, Any]) -> dict[str, str]:
    """Name to a hash over dtype, shape and every byte of a tensor, in row order; layout does not count.

    results: what a driver's ``results`` returns, on any device.
    """
    import torch  # only in a worker

    found = {}
    for name, tensor in results.items():
        dense = tensor.detach().cpu().contiguous()
        total = hashlib.sha256(f"{dense.dtype} {tuple(dense.shape)}\0".encode())
        if dense.numel():
            total.update(dense.reshape(-1).view(torch.uint8).numpy().tobytes())
        found[name] = total.hexdigest()
    return found
