"""Runs the five-stage baseline in the emulator; a process of its own: ``five_stage_worker.py ARCH``.

Reads a JSON list of cases (m, hc, hs, r, n_pad) from standard input and writes a JSON list of results.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

#: exp2 and rcp of one sigmoid, each within 1 ulp, its add, and rounding of the exponent: relative error in f32.
SIGMOID_STEPS = 8


def run_case(case: dict[str, Any]) -> dict[str, Any]:
    """One call; every stage is checked on what the stage before it stored."""
    import torch

    import oracle
    from hcgr.five_stage import five_stage_combine_and_mix
    from validation.emulator import emulate

    m, hc, hs, r, n_pad = (case[name] for name in ("m", "hc", "hs", "r", "n_pad"))
    made = oracle.inputs.make(m, hc, hs, r, n_pad, seed=5)
    pending = (made.residual, made.block_output, made.injection)
    with emulate(checks=("memcheck", "initcheck", "counts")) as session:
        got = five_stage_combine_and_mix(
            *pending, made.norm_weight, made.w_down, made.w_up, made.w_inject, hc, 1e-6, made.merged
        )
    first = (got["r2"], got["rrms"], got["packed"], *pending, made.norm_weight, made.merged)
    stages = dict(oracle.check_k1(*first, hc=hc, eps=1e-6, fold_w=False, live=r + hc).stages)
    stages["xn"] = oracle.check_xn(got["xn"], got["r2"], got["rrms"], made.norm_weight)
    stages["h"] = oracle.check_h(got["h"], got["packed"][:, :r], hc)

    # z: bf16 products are exact in f32, so only the sum of r of them and the store round (lambda = 8).
    h, w_up = got["h"].double(), made.w_up.double()
    z = h @ w_up.T
    spread = 8 * r**0.5 * 2.0**-24 * (h.abs() @ w_up.abs().T)
    z_bound = spread + 2.0**-8 * (z.abs() + spread)
    z_wrong = int((~((got["z"].double() - z).abs() <= z_bound)).sum())

    terms = torch.sigmoid(got["z"].double()) * got["xn"].double()
    by_stream = terms.view(m, hc, hs)
    x = by_stream.mean(1)
    exponent = 1 + got["z"].double().abs().view(m, hc, hs)
    x_spread = 2.0**-24 * ((SIGMOID_STEPS * exponent + hc) * by_stream.abs()).mean(1)
    x_bound = x_spread + 2.0**-8 * (x.abs() + x_spread)
    x_wrong = int((~((got["x"].double() - x).abs() <= x_bound)).sum())
    return {
        "kernels": [launch.kernel for launch in session.launches],
        "findings": [str(finding) for finding in session.findings],
        "failed": [str(stage) for stage in stages.values() if not stage.passed],
        "z_wrong": z_wrong,
        "x_wrong": x_wrong,
        "arguments": [launch.counts["arguments"] for launch in session.launches],
    }


def main() -> None:
    arch = sys.argv[1]
    os.environ.update(ARCH=arch, FLYDSL_GPU_ARCH=arch, FLYDSL_COMPILE_BACKEND="emulator")
    os.environ["FLYDSL_RUNTIME_ENABLE_CACHE"] = "0"
    json.dump([run_case(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
