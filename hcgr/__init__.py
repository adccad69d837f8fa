"""Two-stage Hyper-Connection gated residual for gfx942 and gfx950 (arXiv 2409.19606).

Importing this package does not import FlyDSL; the first launch does.
"""

from hcgr.api import (
    flydsl_gr_two_stage_combine,
    flydsl_gr_two_stage_combine_and_mix,
    flydsl_gr_two_stage_mix,
    flydsl_k1_combine_norm_down,
    flydsl_up_gate_mix_norm,
)
from hcgr.weights import fold_norm_weight, merge_gr_two_stage_weight

__all__ = [
    "flydsl_gr_two_stage_combine",
    "flydsl_gr_two_stage_combine_and_mix",
    "flydsl_gr_two_stage_mix",
    "flydsl_k1_combine_norm_down",
    "flydsl_up_gate_mix_norm",
    "fold_norm_weight",
    "merge_gr_two_stage_weight",
]
