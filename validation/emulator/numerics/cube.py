"""Cube-map helpers: face, coordinates and major axis of a float32 direction.

Pseudocode: CDNA3 and CDNA4 ISA manuals, `V_CUBEID_F32` and following.  Every
function takes the x, y and z components and returns float32.
"""

from __future__ import annotations

import numpy as np

from .bits import Array


def _axes(x: Array, y: Array, z: Array) -> list[Array]:
    """Conditions, in order: z is the major axis, y is."""
    ax, ay, az = np.abs(x), np.abs(y), np.abs(z)
    return [(az >= ax) & (az >= ay), ay >= ax]


def _choose(x: Array, y: Array, z: Array, on_z: Array, on_y: Array, on_x: Array) -> Array:
    return np.select(_axes(x, y, z), [on_z, on_y], on_x).astype(np.float32)


def _broadcast(x: Array, y: Array, z: Array) -> tuple[Array, ...]:
    return tuple(np.broadcast_arrays(x, y, z))


def cube_face(x: Array, y: Array, z: Array) -> Array:
    """0 to 5 for +x, -x, +y, -y, +z, -z: `V_CUBEID_F32`."""
    x, y, z = _broadcast(x, y, z)
    return _choose(x, y, z, np.where(z < 0, 5, 4), np.where(y < 0, 3, 2), np.where(x < 0, 1, 0))


def cube_s(x: Array, y: Array, z: Array) -> Array:
    """S coordinate: `V_CUBESC_F32`."""
    x, y, z = _broadcast(x, y, z)
    return _choose(x, y, z, np.where(z < 0, -x, x), x, np.where(x < 0, z, -z))


def cube_t(x: Array, y: Array, z: Array) -> Array:
    """T coordinate: `V_CUBETC_F32`."""
    x, y, z = _broadcast(x, y, z)
    return _choose(x, y, z, -y, np.where(y < 0, -z, z), -y)


@np.errstate(over="ignore")
def cube_major(x: Array, y: Array, z: Array) -> Array:
    """Twice the component of largest magnitude: `V_CUBEMA_F32`."""
    x, y, z = _broadcast(x, y, z)
    two = np.float32(2)
    return _choose(x, y, z, z * two, y * two, x * two)
