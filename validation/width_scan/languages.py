"""What the calls of Triton, Gluon and FlyDSL do to integers and addresses: one handler a kind, by last name."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from validation.width_scan import symbols
from validation.width_scan.calls import Call, program_id, unknown
from validation.width_scan.descriptors import descriptor
from validation.width_scan.frames import Frame
from validation.width_scan.limits import INT32_MAX, LOADED, THREAD, role_of
from validation.width_scan.modules import DEVICE_LANGUAGE, dotted
from validation.width_scan.operations import arithmetic, buffer_offset
from validation.width_scan.prepass import leftmost
from validation.width_scan.scopes import lookup
from validation.width_scan.sites import new_site
from validation.width_scan.typenames import width_of
from validation.width_scan.values import (
    BOOL,
    CONSTANT,
    DATA,
    NARROW,
    OTHER,
    WIDE,
    Kind,
    Value,
    constant,
    integer,
    join,
    join_all,
    named_constant,
    quantity,
)


def cast(this: Call, value: Value, width: int | None) -> Value:
    """`value` converted: widening keeps what has overflowed before, narrowing may overflow."""
    if value.kind is Kind.OTHER and width:
        name = value.variable or "value"
        return replace(quantity(name, LOADED, width, "loaded value"), sites=value.sites)
    if width is None or value.kind not in (Kind.INT, Kind.DATA):
        return value
    if width == 0:
        return DATA
    if value.kind is Kind.DATA:
        return replace(
            DATA, kind=Kind.INT, width=width, sym=symbols.leaf("converted value", LOADED), source="loaded value"
        )
    if value.is_constant:
        return replace(value, width=width, literal=None)
    if width == NARROW and value.width == WIDE and not value.sites and value.sym.hi > INT32_MAX:
        site = new_site(this.frame, "narrowing", this.node, value.sym, value, value)
        return replace(value, width=NARROW, sites=site)
    return replace(value, width=width)


def _to(this: Call) -> Value:
    value = this.receiver
    if value is None:
        return unknown(this)
    asked = this.expression(0, "dtype")
    width = width_of(this.frame, asked)
    if width is None and value.kind is Kind.INT and isinstance(asked, ast.Name) and _is_parameter(this.frame, asked.id):
        width = WIDE  # the launcher chooses the index type: it can be 64 bits where the tensor asks for it
    return cast(this, value, width)


def _is_parameter(frame: Frame, name: str) -> bool:
    """Whether a compile-time parameter of a kernel, of unknown value, goes by `name`."""
    held = lookup(frame, name)
    return held is not None and held.is_constant and held.literal is None


def _cast(this: Call) -> Value:
    """``tl.cast(x, t)``, ``x.cast(t)``, ``arith.index_cast(t, x)``: the type is the argument that reads as one."""
    candidates = [*this.node.args, *(k.value for k in this.node.keywords)]
    widths = [width_of(this.frame, node) for node in candidates]
    width = next((w for w in widths if w is not None), None)
    if this.receiver is not None:
        return cast(this, this.receiver, width)
    values = [v for v, w in zip(this.everything(), widths, strict=False) if w is None or v.kind is Kind.INT]
    return cast(this, values[0], width) if values else OTHER


def _fixed_cast(width: int) -> Callable[[Call], Value]:
    def handler(this: Call) -> Value:
        value = this.args[0] if this.args else this.receiver
        if value is None:
            return OTHER
        return cast(this, value, width)

    return handler


#: What a language is called where it is imported from somewhere else (``from vllm.triton_utils import tl``).
_LANGUAGE_NAMES = frozenset({"tl", "triton", "gl", "ttgl", "gluon", "language", "fx", "flyc", "gpu", "rocdl", "arith"})


def _is_wrapper(this: Call) -> bool:
    """Whether a function called as the language's own comes from a file that is not at hand."""
    root = dotted(this.node.func).split(".")[0]
    source, inner = this.frame.function.module.imports.get(root, ("", ""))
    if not source or DEVICE_LANGUAGE.match(source):
        return False
    return (inner or source.rpartition(".")[2]) not in _LANGUAGE_NAMES and root not in _LANGUAGE_NAMES


def _program_id(this: Call) -> Value:
    if _is_wrapper(this):  # there is one reason to wrap it: another type
        return replace(_block_id(this), width=WIDE)
    return _block_id(this)


def _block_id(this: Call) -> Value:
    axis = this.argument(0, "axis", "dimension")
    literal = axis.literal if axis is not None else 0
    number = {"x": 0, "y": 1, "z": 2}.get(literal, literal) if isinstance(literal, str) else literal
    return program_id(number if isinstance(number, int) else 0, ast.unparse(this.node))


def _thread_id(this: Call) -> Value:
    return quantity(ast.unparse(this.node), THREAD, NARROW, "thread id")


def _arange(this: Call) -> Value:
    stop = this.argument(1, "end") if len(this.args) != 1 else this.args[0]
    if stop is None or stop.kind is not Kind.INT:
        return quantity(ast.unparse(this.node), role_of("tile"), NARROW, "thread id")
    role = stop.sym.role or role_of("tile")
    end = symbols.leaf(ast.unparse(this.node.args[-1] if this.node.args else this.node), role, stop.sym.hi)
    return integer(symbols.before(end), NARROW, "range")


def _loaded(this: Call) -> Value:
    return quantity("loaded value", LOADED, NARROW, "loaded value")


def _load(this: Call) -> Value:
    this.report(this.receiver, *this.args[:1], this.keywords.get("pointer"), this.keywords.get("ptr"))
    if this.receiver is not None:  # descriptor.load([offsets])
        this.report(*this.args)
    return _loaded(this)


def _store(this: Call) -> Value:
    this.report(this.receiver, this.keywords.get("pointer"), this.keywords.get("ptr"))
    if this.receiver is None or this.frame.dialect != "flydsl":  # there a method's argument is what it stores
        this.report(*this.args[:1])
    return OTHER


def _store_value_first(this: Call) -> Value:
    this.report(*this.args[1:], *(this.keywords[k] for k in ("ptr", "memref", "indices") if k in this.keywords))
    return OTHER


def _buffer_access(this: Call) -> Value:
    """A buffer instruction: descriptor (or base) and 32-bit offsets, in whatever order the language has them."""
    values = this.everything()
    base = next((v for v in values if v.kind is Kind.BUFFER), None)
    if values and values[0].kind is not Kind.BUFFER and ("store" in this.name or "atomic" in this.name):
        values = values[1:]  # what is stored
    this.report(*(v for v in values if v.kind is not Kind.DATA))
    if base is not None and not base.sym.hi:
        for node, value in zip(this.node.args, this.args, strict=False):
            if value is not base and value.kind is Kind.INT and not value.is_constant:
                this.report(replace(value, sites=buffer_offset(this.frame, node, base, value)))
    return _loaded(this)


#: A pointer into memory of the workgroup, of which there is far less than 2^31 of anything.
_LOCAL = re.compile(r"(?:.*_)?(?:lds|smem|shared|sram)(?:_.*)?", re.I)


def _address_call(this: Call) -> Value:
    values = this.everything()
    if not (this.node.args and _LOCAL.fullmatch(leftmost(this.node.args[0]))):
        this.report(*values)
    return next((v for v in values if v.kind in (Kind.POINTER, Kind.BUFFER)), Value(Kind.POINTER))


def _generic_access(this: Call) -> Value:
    this.report(*this.args[:1], *(this.keywords[k] for k in ("ptr", "addr", "offset") if k in this.keywords))
    return _loaded(this)


def _copy(this: Call) -> Value:
    this.report(*this.everything())
    return OTHER


def _full(this: Call) -> Value:
    width = width_of(this.frame, this.expression(2 if this.name == "full" else 1, "dtype"))
    if not width:
        return DATA if this.frame.dialect != "flydsl" else OTHER
    filler = this.argument(1, "value", "fill_value") if this.name == "full" else constant(0)
    return replace(filler, width=width, literal=None) if filler is not None and filler.kind is Kind.INT else OTHER


def _cdiv(this: Call) -> Value:
    if len(this.args) == 2 and all(v.kind is Kind.INT for v in this.args):
        return arithmetic(this.frame, this.node, ast.FloorDiv, *this.args)
    return unknown(this)


def _extreme(op: str) -> Callable[[Call], Value]:
    def handler(this: Call) -> Value:
        values = [v for v in this.args if v.kind is Kind.INT]
        if len(this.args) < 2 or len(values) < 2:  # a reduction
            return this.receiver if this.receiver is not None else this.args[0] if this.args else OTHER
        a, b = values[0], values[1]
        joined = join(a, b)
        width = max(a.width, b.width)
        combine = symbols.minimum if op == "min" else symbols.maximum
        small = a if a.sym.hi <= b.sym.hi else b
        sites = joined.sites
        if op == "min" and small.sym.hi <= INT32_MAX and not small.sites:
            sites = frozenset() if small.is_constant else sites
        source = a.source if a.is_index else b.source or a.source
        return integer(
            combine(a.sym, b.sym),
            width,
            source,
            (small if op == "min" else joined).role,
            sites=sites,
            tile=a.tile or b.tile,
        )

    return handler


def _clamp(this: Call) -> Value:
    """``tl.clamp(x, low, high)``: at most `high`."""
    value, high = this.receiver or this.argument(0, "x"), this.argument(1 if this.receiver else 2, "max")
    if value is None or high is None or value.kind is not Kind.INT or high.kind is not Kind.INT:
        return value or OTHER
    return _extreme("min")(replace(this, receiver=None, args=[value, high], keywords={}))


def _select(this: Call) -> Value:
    values = this.args if this.receiver is not None and len(this.args) == 2 else this.args[1:3]
    return join_all(values) if values else OTHER


def _same(this: Call) -> Value:
    """Layout and hints: the value is the receiver's or the first argument's."""
    if this.receiver is not None and this.receiver.kind is not Kind.OTHER:
        return this.receiver
    numbers = [v for v in this.args if v.kind is not Kind.OTHER]
    if numbers:
        return numbers[0]
    return unknown(this)


def _arith_constant(this: Call) -> Value:
    value = this.args[0] if this.args else OTHER
    return value if value.kind is Kind.INT else DATA if value.kind is Kind.DATA else named_constant("constant")


def _operator(op: type[ast.operator]) -> Callable[[Call], Value]:
    def handler(this: Call) -> Value:
        if len(this.args) < 2:
            return unknown(this)
        node = ast.copy_location(ast.BinOp(this.node.args[0], op(), this.node.args[1]), this.node)
        return arithmetic(this.frame, node, op, this.args[0], this.args[1])

    return handler


def _append(this: Call) -> Value:
    func = this.node.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and this.args:
        owner = this.frame.env.owner(func.value.id)
        added = this.args[0]
        if this.name == "extend" and added.kind is Kind.SEQUENCE:
            added = added.element or OTHER
        if owner is not None:
            held = owner.variables[func.value.id]
            element = join(held.element, added) if held.element is not None and held.items != () else added
            owner.variables[func.value.id] = Value(Kind.SEQUENCE, element=element, sites=held.sites | added.sites)
    return OTHER


def _boolean(this: Call) -> Value:
    return BOOL


def _data(this: Call) -> Value:
    return DATA


def _coordinate(this: Call) -> Value:
    """A layout maps coordinates to an index, or back: bounded by the layout, and as wide as what goes in."""
    sites = frozenset[Any]().union(*(v.sites for v in this.everything()))
    return replace(OTHER, sites=sites)


def _sequence_of(this: Call) -> Value:
    return this.args[0] if this.args and this.args[0].kind is Kind.SEQUENCE else OTHER


def _length(this: Call) -> Value:
    return named_constant("length")


def _program_count(this: Call) -> Value:
    count = replace(program_id(1, ast.unparse(this.node)), source="parameter")
    return replace(count, width=WIDE) if _is_wrapper(this) else count


_GROUPS: tuple[tuple[str, Callable[[Call], Value]], ...] = (
    ("to astype", _to),
    ("cast index_cast index_castui bitcast_int IndexCastOp", _cast),
    ("Int64 Uint64 int64 uint64 Index extsi extui zext sext ptrtoint", _fixed_cast(WIDE)),
    ("Int32 Uint32 int32 uint32 trunci", _fixed_cast(NARROW)),
    ("program_id block_id workgroup_id", _program_id),
    ("num_programs grid_dim num_blocks", _program_count),
    ("thread_id lane_id warp_id", _thread_id),
    ("arange", _arange),
    ("load", _load),
    ("store", _store),
    ("atomic", _load),
    (
        "buffer_load buffer_store buffer_load_to_shared global_load_to_shared buffer_atomic buffer_load_dwordx4",
        _buffer_access,
    ),
    (
        "make_block_ptr advance make_tensor_descriptor make_tensor_ptr add_offset "
        "getelementptr gep GEPOp get_element_ptr "
        "inttoptr",
        _address_call,
    ),
    ("generic_load generic_store ptr_load GlobalLoad", _generic_access),
    ("ptr_store memref_store memref_store_vec", _store_value_first),
    ("copy copy_atom_call make_view load_tile store_tile", _copy),
    (
        "create_buffer_resource create_buffer_resource_from_addr make_buffer_ptr make_buffer_tensor make_rsrc "
        "make_buffer_resource make_buffer_rsrc",
        descriptor,
    ),
    ("load_shared load_shared_relaxed local_load shared_load memcpy_load", lambda this: _loaded(this)),
    ("zeros full zeros_like full_like", _full),
    ("cdiv ceildiv ceil_div", _cdiv),
    ("minimum min minsi minui", _extreme("min")),
    ("maximum max maxsi maxui", _extreme("max")),
    ("clamp", _clamp),
    ("where select", _select),
    (
        "multiple_of max_contiguous max_constancy broadcast_to expand_dims reshape ravel "
        "trans view permute readfirstlane "
        "ir_value set_layout convert_layout cumsum sum flip join split next_power_of_2 "
        "const_expr abs make_value unwrap "
        "bitcast to_tensor broadcast",
        _same,
    ),
    ("constant", _arith_constant),
    ("append extend", _append),
    ("cmpi cmpf ult slt isinstance hasattr static_assert assume program_any", _boolean),
    ("dot exp exp2 log log2 rsqrt sqrt sigmoid tanh sin cos fma rand Float32 BFloat16 Float16 mfma", _data),
    ("crd2idx idx2crd layout_get make_layout make_shape make_stride make_coord get", _coordinate),
    ("constexpr", lambda this: this.args[0] if this.args else OTHER),
    ("list tuple sorted", _sequence_of),
    ("len", _length),
)
_ARITHMETIC: dict[str, type[ast.operator]] = {
    "muli": ast.Mult,
    "addi": ast.Add,
    "subi": ast.Sub,
    "divui": ast.FloorDiv,
    "divsi": ast.FloorDiv,
    "floordivsi": ast.FloorDiv,
    "remui": ast.Mod,
    "remsi": ast.Mod,
    "shli": ast.LShift,
    "shrui": ast.RShift,
    "shrsi": ast.RShift,
    "andi": ast.BitAnd,
    "ori": ast.BitOr,
    "xori": ast.BitXor,
}
HANDLERS: dict[str, Callable[[Call], Value]] = {
    **{name: handler for names, handler in _GROUPS for name in names.split()},
    **{name: _operator(op) for name, op in _ARITHMETIC.items()},
    "index": lambda this: _fixed_cast(CONSTANT)(this) if this.receiver is None else OTHER,
}
