"""What a device function tells before it is evaluated: which parameters are pointers, which names masks bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from validation.width_scan.modules import Library, Module, dotted
from validation.width_scan.values import Function
from validation.width_scan.walking import walk

#: Calls whose first argument (or this keyword) is an address.
ADDRESS_CALLS = {
    "load": "pointer",
    "store": "pointer",
    "make_block_ptr": "base",
    "make_tensor_descriptor": "base",
    "advance": "base",
    "atomic_add": "pointer",
    "atomic_max": "pointer",
    "atomic_min": "pointer",
    "atomic_cas": "pointer",
    "atomic_xchg": "pointer",
    "atomic_and": "pointer",
    "atomic_or": "pointer",
    "atomic_xor": "pointer",
    "buffer_load": "ptr",
    "global_load": "ptr",
}
_POINTER_ENDS = ("_ptr", "_ptrs", "_pointer")


def leftmost(node: ast.expr) -> str:
    """The name at the left end of a sum: the pointer, by every convention in use."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left = node.left
            node = node.right if isinstance(left, ast.Constant) or _is_product(left) else left
        elif isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.IfExp):
            node = node.body
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cast") and not node.args[1:]:
                node = node.func.value
            elif node.args:
                node = node.args[0]
            else:
                return ""
        else:
            return ""


def _is_product(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def parameters(function: Function) -> list[ast.arg]:
    """All parameters, in order."""
    args = function.node.args
    return [*args.posonlyargs, *args.args, *args.kwonlyargs]


def nodes(function: Function) -> list[ast.AST]:
    """All nodes of a function, listed once."""
    if function.nodes is None:
        function.nodes = walk(function.node)
    return function.nodes


def _assignments(function: Function) -> Iterator[tuple[str, ast.expr]]:
    for statement in nodes(function):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    yield target.id, statement.value
                elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
                    for t, v in zip(target.elts, statement.value.elts, strict=False):
                        if isinstance(t, ast.Name):
                            yield t.id, v
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.target


def pointers(function: Function, library: Library) -> frozenset[str]:
    """Names of the parameters that are addresses, by use here or in the functions that it passes them to."""
    if function.pointers is not None:
        return function.pointers
    function.pointers = frozenset()  # a recursive call adds nothing
    names = {arg.arg for arg in parameters(function)}
    assigned: dict[str, list[ast.expr]] = {}
    for name, value in _assignments(function):
        assigned.setdefault(name, []).append(value)
    found = {name for name in names if name.lower().endswith(_POINTER_ENDS)}
    pending: list[str] = []
    for node in nodes(function):
        if isinstance(node, ast.Call):
            pending.extend(_address_arguments(node, function, library))
        elif isinstance(node, ast.Attribute) and node.attr == "element_ty":
            pending.append(dotted(node).split(".")[0])
    seen: set[str] = set()
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        if name in names:
            found.add(name)
        pending.extend(leftmost(value) for value in assigned.get(name, []) if not isinstance(value, ast.Constant))
    function.pointers = frozenset(found)
    return function.pointers


def _address_arguments(node: ast.Call, function: Function, library: Library) -> Iterator[str]:
    name = dotted(node.func)
    last = name.rpartition(".")[2]
    if last in ADDRESS_CALLS and "." in name:
        if node.args:
            yield leftmost(node.args[0])
        for keyword in node.keywords:
            if keyword.arg == ADDRESS_CALLS[last]:
                yield leftmost(keyword.value)
    elif last == "buffer_load_to_shared" and len(node.args) > 1:
        yield leftmost(node.args[1])
    elif last == "buffer_store":
        for keyword in node.keywords:
            if keyword.arg == "ptr":
                yield leftmost(keyword.value)
        if len(node.args) > 1:
            yield leftmost(node.args[1])
    elif isinstance(node.func, ast.Name):
        callee = find_function(function.module, node.func.id, library)
        if callee is not None and callee is not function and callee.kind == "device":
            inner = pointers(callee, library)
            formal = [arg.arg for arg in parameters(callee)]
            for parameter, value in zip(formal, node.args, strict=False):
                if parameter in inner:
                    yield leftmost(value)
            for keyword in node.keywords:
                if keyword.arg in inner:
                    yield leftmost(keyword.value)


def find_function(module: Module, name: str, library: Library) -> Function | None:
    """The function that a bare name means at the top of a module, through imports."""
    for _ in range(4):
        if name in module.top.functions:
            return module.top.functions[name]
        source = module.imports.get(name)
        if source is None or not source[1]:
            return None
        target = library.resolve(module, source[0])
        if target is None:
            return None
        module, name = target, source[1]
    return None


def range_ends(function: Function) -> frozenset[str]:
    """Names that end a ``tl.arange`` here: extents of a tile, whatever they are called."""
    found = set()
    for node in nodes(function):
        if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] == "arange" and node.args:
            last = node.args[min(1, len(node.args) - 1)]
            if isinstance(last, ast.Name):
                found.add(last.id)
    return frozenset(found)


def caps(function: Function) -> dict[str, list[tuple[ast.expr, bool]]]:
    """Names that a comparison bounds from above (``offs < n``, ``n > offs``): the bounds, and whether below them.

    Only lanes inside a mask reach memory, so a masked index is as large as its bound, wherever the mask stands.
    """
    if function.caps is None:
        found: dict[str, list[tuple[ast.expr, bool]]] = {}
        left = [node for node in nodes(function) if isinstance(node, ast.If) and _only_returns(node)]
        refusals = {id(part) for node in left for part in walk(node.test)}
        for refusing in left:
            for name, bound, strict in _refused(refusing.test):
                found.setdefault(name, []).append((bound, strict))
        for node in nodes(function):
            if isinstance(node, ast.Compare) and id(node) not in refusals:
                for name, bound, strict in _compared(node):
                    found.setdefault(name, []).append((bound, strict))
        _cap_block_ids(function, found)
        function.caps = found
    return function.caps


def _compared(node: ast.Compare) -> Iterator[tuple[str, ast.expr, bool]]:
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        pair = (left, right) if isinstance(op, (ast.Lt, ast.LtE)) else (right, left)
        name = _bare(pair[0]) if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) else ""
        if name:
            yield name, pair[1], isinstance(op, (ast.Lt, ast.Gt))
        left = right


_OPPOSITE: dict[type, ast.cmpop] = {ast.Lt: ast.GtE(), ast.LtE: ast.Gt(), ast.Gt: ast.LtE(), ast.GtE: ast.Lt()}


def _only_returns(node: ast.If) -> bool:
    return isinstance(node.body[-1], ast.Return) and len(node.body) == 1 and not node.orelse


def _refused(test: ast.expr) -> Iterator[tuple[str, ast.expr, bool]]:
    """What holds after ``if row >= n or col >= m: return``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for part in test.values:
            yield from _refused(part)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITE:
        yield from _compared(ast.Compare(test.left, [_OPPOSITE[type(test.ops[0])]], test.comparators))


def asserted(function: Function) -> dict[str, list[tuple[ast.expr, bool]]]:
    """Names that an assertion bounds (``tl.assume(stride < 64)``): the bounds, and whether below them."""
    found: dict[str, list[tuple[ast.expr, bool]]] = {}
    if not function.module.asserts:
        return found
    for node in nodes(function):
        test = node.test if isinstance(node, ast.Assert) else None
        if isinstance(node, ast.Call) and node.args and dotted(node.func).rpartition(".")[2] in _ASSERTIONS:
            test = node.args[0]
        for part in walk(test) if test is not None else ():
            if isinstance(part, ast.Compare):
                for name, bound, strict in _compared(part):
                    found.setdefault(name, []).append((bound, strict))
    return found


_ASSERTIONS = frozenset({"assume", "device_assert", "static_assert"})


def _cap_block_ids(function: Function, found: dict[str, list[tuple[ast.expr, bool]]]) -> None:
    """``offs = pid * BLOCK + arange`` below n bounds pid by n // BLOCK."""
    for name, value in list(_assignments(function)) if found else ():
        for bound, _ in tuple(found.get(name, ())):  # `pid = pid * BLOCK` adds to what is read here
            for term in _terms(value):
                if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
                    block_id, block = term.left, term.right
                    if isinstance(block_id, ast.Name) and isinstance(block, ast.Name) and block.id.isupper():
                        quotient = ast.BinOp(bound, ast.FloorDiv(), block)
                        found.setdefault(block_id.id, []).append((ast.copy_location(quotient, term), False))


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield node.right
        node = node.left
    yield node


def _bare(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
