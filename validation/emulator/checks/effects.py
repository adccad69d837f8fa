"""Which registers an instruction reads and writes, from its text and its table entry alone.

Registers have keys: the row of the vector register file, and from ``SCALAR_KEYS`` on the scalar registers, with SCC as
one more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..isa.entry import Entry
from ..machine.lane_routing import DPP_MODIFIERS
from ..machine.sub_dword import SDWA_MODIFIERS
from ..machine.transfer import SCALAR_KEYS, entry_format, scalar_key
from ..machine.types import IMPLICIT, TYPES
from ..program.gpr_index import DESTINATION, SOURCE
from ..program.operands import EXEC, M0, SGPR_FILE_SIZE, VCC, Operand
from ..program.program import Instruction

SCC_KEY = scalar_key(SGPR_FILE_SIZE)
VCC_KEYS = (scalar_key(VCC), scalar_key(VCC + 1))
EXEC_KEYS = (scalar_key(EXEC), scalar_key(EXEC + 1))
M0_KEYS = (scalar_key(M0),)
_IMPLICIT = {"scc": (SCC_KEY,), "vcc": VCC_KEYS, "vccmask": VCC_KEYS, "exec": EXEC_KEYS, "m0": M0_KEYS}
_CONDITIONS = {"scc": (SCC_KEY,), "vccz": VCC_KEYS, "execz": EXEC_KEYS}
_VCC = Operand("s", VCC, 2)
_SPECIAL = {VCC: "vcc_lo", VCC + 1: "vcc_hi", M0: "m0", EXEC: "exec_lo", EXEC + 1: "exec_hi", SGPR_FILE_SIZE: "scc"}
Keys = tuple[int, ...]


def operand_keys(operand: Operand, agpr_base: int) -> Keys:
    """Keys of the registers of an operand."""
    if operand.kind in ("v", "a"):
        first = operand.index + (agpr_base if operand.kind == "a" else 0)
        return tuple(range(first, first + operand.count))
    if operand.kind == "s":
        return tuple(range(scalar_key(operand.index), scalar_key(operand.index + operand.count)))
    return _CONDITIONS.get(operand.name, ()) if operand.kind == "cond" else ()


def key_name(key: int, agpr_base: int) -> str:
    """The register as assembly text writes it."""
    if key >= SCALAR_KEYS:
        index = key - SCALAR_KEYS
        return _SPECIAL.get(index, f"s{index}")
    return f"v{key}" if key < agpr_base else f"a{key - agpr_base}"


@dataclass(frozen=True, slots=True)
class Effect:
    """reads: registers whose contents the instruction uses; writes: those that it may change.

    address, data: the part of ``reads`` that a memory instruction forms its address from, and that it stores.
    total: every active lane of each register in ``writes`` is written as a whole. everywhere: lanes outside of EXEC are
    read too. all_lanes: they are written too. vague: register numbers are found at
    run time: one of ``writes`` is written, and of the vector registers in ``reads`` one is read.
    """

    reads: Keys
    writes: Keys
    total: bool = True
    everywhere: bool = False
    address: Keys = ()
    data: Keys = ()
    all_lanes: bool = False
    vague: bool = False

    @property
    def writes_exec(self) -> bool:
        return any(k in self.writes for k in EXEC_KEYS)


def effect_of(inst: Instruction, entry: Entry, agpr_base: int) -> Effect:
    """The effect of one instruction."""
    sets = [operand_keys(o, agpr_base) for o in inst.operands]
    if mode := inst.modifiers.get("gpr_idx", 0):
        # which register M0 leads to is not known: any from the named one on
        indexed = (mode & DESTINATION, mode & SOURCE and inst.operands[1].kind == "v")
        sets = [tuple(range(keys[0], agpr_base)) if open_ else keys for keys, open_ in zip(sets, indexed, strict=True)]
    return _RULES[entry.form](inst, entry, sets)


def _joined(sets: Sequence[Keys]) -> Keys:
    return tuple(dict.fromkeys(k for keys in sets for k in keys))


def _implicit(names: Sequence[str]) -> Keys:
    return tuple(k for name in names for k in _IMPLICIT.get(name, ()))


# -- computing instructions ------------------------------------------------------------------------------------------
def _plain(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    """Shown results first, then shown sources; what the text does not show as the table says."""
    shown = [name for name in (*entry.dst, *entry.src) if name not in IMPLICIT]
    if not entry.options.get("quads"):
        for position, name in enumerate(shown):
            if name == "m64" and len(sets) < len(shown):
                sets = [*sets[:position], VCC_KEYS, *sets[position:]]
    results = 1 if entry.options.get("quads") else len([name for name in entry.dst if name not in IMPLICIT])
    written, read = sets[:results], sets[results:]
    if entry.options.get("dst_is_source"):
        read = [*read, *written]
    writes = _joined([*written, _implicit(entry.dst)])
    if entry.options.get("writes_exec"):
        writes = (*writes, *EXEC_KEYS)
    dpp = bool(DPP_MODIFIERS & inst.modifiers.keys())
    return Effect(_joined([*read, _implicit(entry.src)]), writes, not dpp and _whole(inst, entry), dpp)


def _whole(inst: Instruction, entry: Entry) -> bool:
    """Is no part of a result register kept?"""
    if inst.encoding == "sdwa" or SDWA_MODIFIERS & inst.modifiers.keys():
        return False
    if entry.form == "mix":
        return "half" not in entry.options
    if entry.form in ("packed16", "packed32", "packed_move"):
        return True
    narrow = any(name not in IMPLICIT and TYPES[name].bits == 16 for name in entry.dst)
    return not narrow or not (entry.options.get("keep_half") or any(inst.modifiers.get("op_sel", ())))


def _small_float(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    bits, _ = entry.options["result"]
    return Effect(_joined(sets[1:]), sets[0], bits * entry.options["source"][1] >= 32)


def _readlane(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect(_joined(sets[1:]), sets[0], everywhere=True)


def _writelane(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect(_joined(sets[1:]), sets[0], False, True)


def _swap(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    both = _joined(sets)
    return Effect(both, both, False, entry.form == "permlane_swap")


def _matrix(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    sources = sets if entry.form == "smfmac" else sets[1:]
    return Effect(_joined(sources), sets[0], everywhere=True, all_lanes=True)


def _one_result(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect((), sets[0])


def _move_relative(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    """Which register M0 leads to is not known: a write may reach any."""
    if entry.options["indexed"] == "source":
        return Effect(_joined([sets[1], M0_KEYS]), sets[0])
    return Effect(_joined([sets[1], M0_KEYS]), tuple(range(scalar_key(0), scalar_key(102))), vague=True)


def _indexed_move(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect(_joined([sets[1], M0_KEYS]), sets[0], len(sets[0]) == 1, vague=True)


def _reads_all(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect(_joined([*sets, _implicit(entry.src)]), ())


# -- memory ----------------------------------------------------------------------------------------------------------
def _memory(result: Keys, address: Sequence[Keys], data: Sequence[Keys], total: bool = True) -> Effect:
    where, what = _joined(address), _joined(data)
    return Effect(_joined([where, what]), result, total, address=where, data=what)


def _scalar_memory(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    kind = entry.options["kind"]
    if kind == "load":
        return _memory(sets[0], sets[1:], ())
    if kind == "store" or "glc" not in inst.modifiers:
        return _memory((), sets[1:], sets[:1])
    return _memory(sets[0][: entry.options["op"].nbytes // 4], sets[1:], sets[:1])


def _flat(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    kind = entry.options["kind"]
    if kind == "lds":
        return _memory((), [*sets, M0_KEYS], ())
    if kind == "load":
        return _memory(sets[0], sets[1:], (), not entry_format(entry).half)
    if kind == "store":
        return _memory((), [sets[0], *sets[2:]], [sets[1]])
    returned = sets.pop(0) if "sc0" in inst.modifiers else ()
    return _memory(returned, [sets[0], *sets[2:]], [sets[1]])


def _buffer(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    kind = entry.options["kind"]
    if "lds" in inst.modifiers:
        return _memory((), [*sets, M0_KEYS], ())
    if kind == "load":
        return _memory(sets[0], sets[1:], (), not entry_format(entry).half)
    if kind == "store" or "sc0" not in inst.modifiers:
        return _memory((), sets[1:], sets[:1])
    return _memory(sets[0][: entry.options["op"].nbytes // 4], sets[1:], sets[:1])


def _lds(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    kind = entry.options["kind"]
    if kind == "load":
        return _memory(sets[0], sets[1:], (), entry.form == "ds_two" or not entry_format(entry).half)
    if kind == "store":
        return _memory((), sets[:1], sets[1:])
    returned = sets.pop(0) if entry.options.get("returns") or entry.form == "ds_two" else ()
    return _memory(returned, sets[:1], sets[1:])


def _lds_lane(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    if entry.options["kind"] == "load":
        return _memory(sets[0], [M0_KEYS], ())
    return _memory((), [M0_KEYS], sets[:1])


def _lds_count(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return _memory(sets[0], [M0_KEYS], ())


def _lds_transpose(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return _memory(sets[0], sets[1:], ())


def _exchange(inst: Instruction, entry: Entry, sets: list[Keys]) -> Effect:
    return Effect(_joined(sets[1:]), sets[0], True, True)


_Rule = Callable[[Instruction, Entry, list[Keys]], Effect]
_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        ("salu", "valu", "dot", "dot_accumulate", "mix", "byte_convert", "packed16", "packed32", "packed_move", "jump"),
        _plain,
    ),
    **dict.fromkeys(("branch", "barrier", "end", "wait", "yield", "nop", "no_effect", "trap", "cache"), _reads_all),
    "small_float": _small_float,
    "readlane": _readlane,
    "writelane": _writelane,
    "swap": _swap,
    "permlane_swap": _swap,
    **dict.fromkeys(("mfma", "mfma_f8f6f4", "smfmac"), _matrix),
    **dict.fromkeys(("getreg", "getpc", "clock"), _one_result),
    "movrel": _move_relative,
    "indexed_move": _indexed_move,
    "mode": _reads_all,
    "smem": _scalar_memory,
    **dict.fromkeys(("global", "flat", "scratch"), _flat),
    "mubuf": _buffer,
    **dict.fromkeys(("ds", "ds_two"), _lds),
    "ds_lane": _lds_lane,
    "ds_count": _lds_count,
    "ds_transpose": _lds_transpose,
    **dict.fromkeys(("ds_swizzle", "ds_permute"), _exchange),
}
#: Every form of the instruction table.
EFFECT_FORMS = frozenset(_RULES)
