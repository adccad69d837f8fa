"""A helper in another file than the kernel that calls it."""

import flydsl.expr as fx


def load_doubled(pointer: fx.Pointer, index: fx.Int32) -> fx.Float32:
    return fx.generic_load(pointer + index) * 2.0  # in the shared helper
