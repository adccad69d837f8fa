"""Legal calls of the entry points, and ways to break them; for the contract tests.

Nothing here launches: handles are those of :class:`NoLaunch`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

import hcgr

BF16 = torch.bfloat16
HC, HS, R, N_PAD = 4, 512, 64, 80
K = HC * HS

Call = dict[str, Any]
Change = Callable[[Call], Call]


@dataclass
class NoLaunch:
    """Replaces ``hcgr.dispatch._compile``: records what is compiled and launched, and does nothing else.

    With `fill`, a launch sets what it would write to 1, so that results are the same each time.
    """

    compiled: list[tuple[str, Any, str]] = field(default_factory=list)
    launches: list[tuple[str, tuple[Any, ...]]] = field(default_factory=list)
    fill: bool = False

    def __call__(self, kernel: str, plan: Any, arch: str) -> Callable[..., None]:
        self.compiled.append((kernel, plan, arch))

        def handle(*arguments: Any) -> None:
            self.launches.append((kernel.rpartition(".")[2], arguments))
            for address in arguments if self.fill else ():
                name = getattr(address, "name", "")
                if name in ("rrms", "packed", "out", "x") or (name == "r2" and getattr(plan, "combine", False)):
                    address.tensor.fill_(1)

        return handle

    @property
    def kernels(self) -> list[str]:
        """Names of the launched kernels, in order."""
        return [name for name, _ in self.launches]


def ones(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype)


def _weights(merged: bool) -> Call:
    return {
        "norm_weight": ones(HS),
        "w_down": ones(R, K),
        "w_up": ones(K, R),
        "w_inject": ones(HC, K),
        "hc_count": HC,
        "w_down_merged": ones(N_PAD, K) if merged else None,
    }


def pending(m: int) -> Call:
    return {"residual": ones(m, K), "block_output": ones(m, HS), "injection": ones(m, HC)}


def combine_and_mix(m: int = 3, fold_w: bool = True, merged: bool = True) -> Call:
    return {**pending(m), **_weights(merged), "fold_w": fold_w}


def mix(m: int = 3, fold_w: bool = True, merged: bool = True) -> Call:
    return {"residual": ones(m, K), **_weights(merged), "fold_w": fold_w}


def k1(m: int = 32, fold_w: bool = True, buffers: bool = True, **options: Any) -> Call:
    call = {
        **pending(m),
        "norm_weight": ones(HS),
        "w_dn_merged": ones(N_PAD, K),
        "lowrank": R,
        "hc_count": HC,
        "eps": 1e-6,
        "fold_w": fold_w,
        **options,
    }
    if buffers:
        call |= {"r2_out": ones(m, K), "out": ones(m, N_PAD), "rrms_out": ones(m, HC, dtype=torch.float32)}
    return call


def k2(m: int = 32, buffers: bool = True) -> Call:
    call = {
        "lora": ones(m, N_PAD)[:, :R],
        "r2": ones(m, K),
        "rrms": ones(m, HC, dtype=torch.float32),
        "norm_weight": ones(HS),
        "w_up": ones(K, R),
        "hc_count": HC,
    }
    return call | {"block_input": ones(m, HS)} if buffers else call


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "combine_and_mix": hcgr.flydsl_gr_two_stage_combine_and_mix,
    "mix": hcgr.flydsl_gr_two_stage_mix,
    "k1": hcgr.flydsl_k1_combine_norm_down,
    "k2": hcgr.flydsl_up_gate_mix_norm,
}

#: Legal calls, by a name that says which path they take.
LEGAL: dict[str, tuple[str, Callable[[], Call]]] = {
    "combine_and_mix skinny": ("combine_and_mix", combine_and_mix),
    "combine_and_mix tiled": ("combine_and_mix", lambda: combine_and_mix(fold_w=False)),
    "mix skinny": ("mix", mix),
    "mix tiled": ("mix", lambda: mix(m=40)),
    "k1 skinny": ("k1", lambda: k1(m=3)),
    "k1 tiled": ("k1", k1),
    "k1 unfolded": ("k1", lambda: k1(fold_w=False, split_k=4)),
    "k1 decoupled": ("k1", lambda: k1(split_k=1)),
    "k2": ("k2", k2),
}


def padded(tensor: torch.Tensor, extra: int) -> torch.Tensor:
    """The same values as a view whose row stride is `extra` elements larger."""
    wide = torch.zeros(tensor.shape[0], tensor.shape[1] + extra, dtype=tensor.dtype)
    return wide[:, : tensor.shape[1]].copy_(tensor)


def shifted(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """The same values, contiguous, starting `elements` past an allocation."""
    flat = torch.zeros(tensor.numel() + elements, dtype=tensor.dtype)
    return flat[elements:].view(tensor.shape).copy_(tensor)


def column_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.t().contiguous().t()


def sparse_elements(tensor: torch.Tensor) -> torch.Tensor:
    """The same values with every other element of an allocation."""
    return tensor.repeat_interleave(2, -1)[..., ::2]


def replace(**values: Any) -> Change:
    return lambda _call: values


def on(name: str, f: Callable[[torch.Tensor], Any]) -> Change:
    return lambda call: {name: f(call[name])}


def bytes_of(call: Call) -> dict[str, bytes]:
    """Whole storages of the CPU tensors of a call, by argument."""
    found = {}
    for name, tensor in call.items():
        if isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.layout is torch.strided:
            raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
            found[name] = raw.numpy().tobytes()
    return found
