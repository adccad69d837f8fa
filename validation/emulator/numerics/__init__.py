"""Pure numerics of the gfx942/gfx950 vector ALU on numpy arrays.

Every function is deterministic bit for bit on every host: only operations that
IEEE 754 fixes are used (+ - * / sqrt, comparisons, exact scalings, conversions
of in-range values) and integer arithmetic.  Callers silence NumPy's floating point
warnings (`np.errstate(all="ignore")`) around a whole launch: entering that context
in each function costs as much as an addition over 64 waves.  Functions depend on their arguments
only, keep no state besides immutable tables, and never write to an operand.

| module | content |
|---|---|
| `bits` | formats' masks, NaN and denormal helpers |
| `fma` | add, mul, fma in f16, f32 and f64 with the four rounding modes |
| `transcendental` | rcp, rsq, sqrt, exp2, log2, sin, cos |
| `formats` | conversions between f16, bf16, f32 and f64 |
| `smallfloat` | fp8, bf8, fp6, bf6 and fp4, scaled and stochastic forms |
| `integer` | float to integer conversions and the integer ALU |
| `ieee` | min/max family, clamp, omod, rounding to integers, frexp, ldexp, class |
| `division` | div_scale, div_fmas, div_fixup, trig_preop |
"""
