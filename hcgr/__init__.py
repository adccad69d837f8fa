"""Two-stage Hyper-Connection gated residual for gfx942 and gfx950 (arXiv 2409.19606).

Importing this package does not import FlyDSL; the first launch does.
"""

from hcgr.api import flydsl_gr_two_stage_combine

__all__ = ["flydsl_gr_two_stage_combine"]
