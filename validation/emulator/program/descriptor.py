"""Fields of the kernel descriptor: which ``.amdhsa_*`` directives gfx942 and gfx950 have, and with which values.

Source: LLVM AMDGPUUsage, "AMDHSA Kernel Assembler Directives" and "Kernel Descriptor"; the targets are gfx9 with
architected flat scratch and a unified register file, so directives of other generations are refused, as LLVM does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import AsmError, UnsupportedError


@dataclass(frozen=True, slots=True)
class Field:
    """Accepted values, and which of them the emulator does not execute and why (empty: all are executed)."""

    low: int
    high: int
    only: int | None = None
    why: str = ""


_BIT = Field(0, 1)
_TWO_BITS = Field(0, 3)
_TRAP = Field(0, 1, 0, "floating-point and integer exceptions raise no traps here")
_FLAT_SCRATCH = "gfx942 and gfx950 have architected flat scratch: no register holds it"

#: Directive name without ``.amdhsa_`` -> what it takes.
FIELDS: dict[str, Field] = {
    "group_segment_fixed_size": Field(0, (1 << 32) - 1),
    "private_segment_fixed_size": Field(0, (1 << 32) - 1),
    "kernarg_size": Field(0, (1 << 32) - 1),
    "user_sgpr_count": Field(0, 16),
    "user_sgpr_dispatch_ptr": _BIT,
    "user_sgpr_queue_ptr": _BIT,
    "user_sgpr_kernarg_segment_ptr": _BIT,
    "user_sgpr_dispatch_id": _BIT,
    "user_sgpr_kernarg_preload_length": Field(0, 16),
    "user_sgpr_kernarg_preload_offset": Field(0, 511),
    "user_sgpr_private_segment_size": _BIT,
    "user_sgpr_private_segment_buffer": Field(0, 1, 0, _FLAT_SCRATCH),
    "user_sgpr_flat_scratch_init": Field(0, 1, 0, _FLAT_SCRATCH),
    "enable_private_segment": _BIT,
    "uses_dynamic_stack": _BIT,
    "system_sgpr_workgroup_id_x": _BIT,
    "system_sgpr_workgroup_id_y": _BIT,
    "system_sgpr_workgroup_id_z": _BIT,
    "system_sgpr_workgroup_info": Field(0, 1, 0, "the workgroup info register is not modelled"),
    "system_vgpr_workitem_id": Field(0, 2),
    "next_free_vgpr": Field(0, 512),
    "next_free_sgpr": Field(0, 102),
    "accum_offset": Field(4, 256),
    "reserve_vcc": _BIT,
    "reserve_xnack_mask": _BIT,
    "float_round_mode_32": _TWO_BITS,
    "float_round_mode_16_64": _TWO_BITS,
    "float_denorm_mode_32": _TWO_BITS,
    "float_denorm_mode_16_64": _TWO_BITS,
    "dx10_clamp": _BIT,
    "ieee_mode": _BIT,
    "fp16_overflow": _BIT,
    "tg_split": Field(0, 1, 0, "waves of a workgroup share one compute unit here"),
    **dict.fromkeys(
        (
            "exception_fp_ieee_invalid_op", "exception_fp_denorm_src", "exception_fp_ieee_div_zero",
            "exception_fp_ieee_overflow", "exception_fp_ieee_underflow", "exception_fp_ieee_inexact",
            "exception_int_div_zero",
        ),
        _TRAP,
    ),
}  # fmt: skip

#: User SGPR fields in the order in which they are assigned: descriptor field, SGPRs.
USER_SGPRS = (
    ("user_sgpr_dispatch_ptr", 2),
    ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2),
    ("user_sgpr_dispatch_id", 2),
    ("user_sgpr_private_segment_size", 1),
)


def check_name(name: str, number: int, line: str) -> None:
    """Raise UnsupportedError for a directive that these targets do not have."""
    if name not in FIELDS:
        raise UnsupportedError(
            f"directive .amdhsa_{name}: gfx942 and gfx950 have no such descriptor field; remove it, or compile for one "
            f"of them. Known are {', '.join(sorted(FIELDS))}",
            number,
            line,
        )


def check_value(name: str, value: int, number: int, line: str) -> None:
    """Raise for a value out of range (AsmError) or one that is not executed (UnsupportedError)."""
    field = FIELDS[name]
    if not field.low <= value <= field.high:
        raise AsmError(f".amdhsa_{name} takes {field.low} to {field.high}, got {value}", number, line)
    if name == "accum_offset" and value % 4:
        raise AsmError(f".amdhsa_accum_offset is a multiple of 4, got {value}", number, line)
    if field.only is not None and value != field.only:
        raise UnsupportedError(f".amdhsa_{name} {value} ({field.why}); it takes {field.only}", number, line)


def user_sgprs(descriptor: Mapping[str, int]) -> int:
    """SGPRs that the enabled user fields take, the preloaded kernel arguments included."""
    taken = sum(width for name, width in USER_SGPRS if descriptor.get(name, 0))
    return taken + descriptor.get("user_sgpr_kernarg_preload_length", 0)


def check_whole(name: str, descriptor: Mapping[str, int]) -> None:
    """Raise AsmError for fields of kernel ``name`` that contradict each other."""
    count, needed = descriptor.get("user_sgpr_count"), user_sgprs(descriptor)
    if needed > 16 or (count is not None and count < needed):
        room = 16 if count is None else count
        raise AsmError(
            f"kernel {name!r}: its .amdhsa_user_sgpr_* fields take {needed} SGPRs, and there is room for {room}; "
            "raise .amdhsa_user_sgpr_count (16 at most) or enable fewer"
        )
    total, offset = descriptor.get("next_free_vgpr", 0), descriptor.get("accum_offset", 0)
    if offset and total - offset > 256:
        raise AsmError(f"kernel {name!r}: {total - offset} AGPRs (next_free_vgpr - accum_offset); there are 256")
    if not offset and total > 256:
        raise AsmError(f"kernel {name!r}: .amdhsa_next_free_vgpr {total} needs .amdhsa_accum_offset: 256 are VGPRs")
