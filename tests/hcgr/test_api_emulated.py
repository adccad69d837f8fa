"""The public entry points' machine code in the emulator, against the oracle, on both architectures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hcgr.arch import ARCHS

from .workers import run_worker, takes_turn

PRODUCTION = {"hs": 2560, "r": 320}
SKINNY, FUSED = ["k1_skinny"], ["k1_fused", "k1_reduce"]
SPLIT, DECOUPLED = ["k1_combine_norm", "k1_split_k", "k1_reduce"], ["k1_combine_norm", "k1_decoupled"]
K2 = ["k2_up_gate_mix"]
MIX, COMBINE_MIX = {"entry": "mix"}, {"entry": "combine_and_mix"}

#: Name: (case of api_worker.py, the kernels that must run).
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    # Production shape.
    "m1 n336": ({**COMBINE_MIX, **PRODUCTION, "m": 1, "n_pad": 336}, SKINNY + K2),
    "m3 n384": ({**COMBINE_MIX, **PRODUCTION, "m": 3, "n_pad": 384}, SKINNY + K2),
    "m8 n336 mix": ({**MIX, **PRODUCTION, "m": 8, "n_pad": 336}, SKINNY + K2),
    "m32 n384": ({**COMBINE_MIX, **PRODUCTION, "m": 32, "n_pad": 384}, FUSED + K2),
    # Streams, small; hcgr-validate runs far more of the production shape.
    "m8 unfolded": ({**COMBINE_MIX, "m": 8, "fold": False}, SPLIT + K2),
    "m100": ({**COMBINE_MIX, "m": 100}, FUSED + K2),
    "hc2 skinny": ({**COMBINE_MIX, "hc": 2, "m": 3}, SKINNY + K2),
    "hc8 skinny": ({**COMBINE_MIX, "hc": 8, "m": 8}, SKINNY + K2),
    "hc2 fused": ({**COMBINE_MIX, "hc": 2, "m": 33}, FUSED + K2),
    "hc8 fused mix": ({**MIX, "hc": 8, "m": 17}, FUSED + K2),
    "hc2 unfolded": ({**MIX, "hc": 2, "m": 9, "fold": False}, SPLIT + K2),
    "hc8 unfolded": ({**COMBINE_MIX, "hc": 8, "m": 32, "fold": False}, SPLIT + K2),
    # Norm weights.
    "full norm": ({**COMBINE_MIX, "m": 3, "norm_full": True}, SKINNY + K2),
    "f32 norm": ({**COMBINE_MIX, "m": 16, "norm_f32": True}, FUSED + K2),
    "full f32 norm unfolded": ({**MIX, "m": 16, "norm_full": True, "norm_f32": True, "fold": False}, SPLIT + K2),
    # Weights merged in the call; no inject rows.
    "merged here": ({**COMBINE_MIX, "m": 1, "merged": False}, SKINNY + K2),
    "merged here unfolded": ({**MIX, "m": 16, "merged": False, "fold": False}, SPLIT + K2),
    "final mixer skinny": ({**MIX, "m": 2, "inject": False}, SKINNY + K2),
    "final mixer": ({**COMBINE_MIX, "m": 32, "inject": False}, FUSED + K2),
    # Strides.
    "residual of padded rows": ({**COMBINE_MIX, "m": 5, "residual_pad": 24}, SKINNY + K2),
    "residual of padded rows, mix": ({**MIX, "m": 18, "residual_pad": 8, "fold": False}, SPLIT + K2),
    # Columns that one workgroup's LDS does not hold are shared out.
    "r512 on gfx942": ({**COMBINE_MIX, "m": 9, "r": 512, "n_pad": 528}, DECOUPLED + K2),
    "r512 on gfx942 unfolded": ({**MIX, "m": 17, "r": 512, "n_pad": 528, "hc": 2, "fold": False}, DECOUPLED + K2),
    "r512 of many rows on gfx942": (
        {**COMBINE_MIX, "m": 257, "r": 512, "n_pad": 528, "hc": 2},
        ["k1_resident", *K2],
    ),
    # Direct K1.
    "k1 skinny n8": ({"entry": "k1", "m": 8, "r": 4, "n_pad": 8}, SKINNY),
    "k1 m224": ({"entry": "k1", "m": 224}, FUSED),
    "k1 m100 padded": ({"entry": "k1", "m": 100, "gemm_pad": 128}, FUSED),
    "k1 m100 padded decoupled": ({"entry": "k1", "m": 100, "gemm_pad": 112, "split_k": 1}, DECOUPLED),
    "k1 unfolded split 4": ({"entry": "k1", "m": 32, "split_k": 4, "fold": False}, SPLIT),
    "k1 split 8": ({"entry": "k1", "m": 16, "split_k": 8}, FUSED),
    "k1 split 2 of 64 rows": ({"entry": "k1", "m": 64, "split_k": 2, "block_m": 64}, FUSED),
    "k1 decoupled 4 deep": ({"entry": "k1", "m": 32, "split_k": 1, "stages": 4}, DECOUPLED),
    "k1 decoupled 8 deep unfolded": ({"entry": "k1", "m": 16, "stages": 8, "fold": False}, DECOUPLED),
    # Direct K2.
    "k2 m48": ({"entry": "k2", "m": 48}, K2),
    "k2 of 64 rows": ({"entry": "k2", "m": 64, "block_m": 64, "norm_f32": True}, K2),
    "k2 production": ({"entry": "k2", "m": 16, **PRODUCTION, "n_pad": 336}, K2),
    # Layers that feed packed to each other.
    "three layers skinny": ({"entry": "layers", "m": 3}, (SKINNY + K2) * 4),
    "three layers fused": ({"entry": "layers", "m": 20}, (FUSED + K2) * 4),
    "three layers unfolded": ({"entry": "layers", "m": 9, "fold": False}, (SPLIT + K2) * 4),
}


#: Cases of one worker process: few enough to finish in its time on a busy machine.
CHUNK = 9
#: Cases of every path that run on both architectures.
ON_BOTH = ("m1 n336", "hc8 skinny", "hc2 fused", "hc2 unfolded", "k1 m100 padded decoupled", "k2 m48")
#: Cases whose path is that of one architecture's LDS.
ONLY_ON = {name: "gfx942" for name in CASES if name.startswith("r512 ")}


def cases_of(arch: str) -> list[str]:
    return [
        name
        for i, name in enumerate(CASES)
        if (ONLY_ON[name] == arch if name in ONLY_ON else name in ON_BOTH or takes_turn(arch, i, 0))
    ]


def result(arch: str, name: str) -> dict[str, Any]:
    names = cases_of(arch)
    chunk, place = divmod(names.index(name), CHUNK)
    cases = [CASES[name][0] for name in names[chunk * CHUNK : (chunk + 1) * CHUNK]]
    done = run_worker("api_worker.py", arch, json.dumps(cases))
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return results[place]


@pytest.mark.parametrize(("arch", "name"), [(arch, name) for arch in ARCHS for name in cases_of(arch)])
def test_values_and_memory(arch: str, name: str) -> None:
    got = result(arch, name)
    assert got["kernels"] == CASES[name][1]
    assert got["findings"] == []
    assert got["failed"] == []
    assert got["compared"] > 0
