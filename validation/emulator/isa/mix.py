"""Mixed-precision fused multiply-add (VOP3P): each source is an f32 or one half of a register as f16.

Source: CDNA3 and CDNA4 ISA manuals, ``V_MAD_MIX_F32`` and its relatives, which LLVM spells ``v_fma_mix*`` on gfx942 and
gfx950 because they round once (feature ``fma-mix-insts``). ``v_mad_mix*`` is not accepted for these targets.
"""

from __future__ import annotations

from ..numerics import fma
from .entry import define

define("v_fma_mix_f32", "mix", "f32", "f32 f32 f32", fma.fma32, rounds=True)
define("v_fma_mixlo_f16", "mix", "f16", "f32 f32 f32", fma.fma32, half=0)
define("v_fma_mixhi_f16", "mix", "f16", "f32 f32 f32", fma.fma32, half=1)
