"""SiLU on bf16 vectors, traced inline."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

from hcgr.kernels.device import sigmoid_of_quotient


def silu_of_quotient(packed: Any, hc: int, count: int = 8) -> Any:
    """h = bf16(SiLU(packed / HC)) of `count` bf16; HC is a power of two, so the quotient is exact.

    sigma is within about 2 ulp of float32 (``v_exp_f32`` and ``v_rcp_f32``, 1 ulp each).
    """
    wide = packed.to(fx.Float32)
    activated = [wide[i] * (1.0 / hc) * sigmoid_of_quotient(wide[i], hc) for i in range(count)]
    return fx.Vector.from_elements(activated, fx.Float32).to(fx.BFloat16)
