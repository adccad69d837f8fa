"""Kernel parameter names, from the Python signature into the ISA's metadata.

FlyDSL drops them: its ``.args`` entries have no ``.name``, so a finding could only say "argument 3". A
hook notes the Python names on the kernel, the module attribute ``gpu.argument_names`` carries them
through the pipeline (and into the cache key), and the finished ISA text gets a ``.name`` for each
pointer argument. Pointers are matched by their order; by-value arguments keep no name.
"""

from __future__ import annotations

import re
from typing import Any

ATTRIBUTE = "gpu.argument_names"
"""Module attribute (a dictionary of kernel name to names) and, on a kernel, the array of its names."""

_KERNEL_ATTRIBUTE = "argument_names"
_POINTER_TYPES = ("!fly.ptr<", "!fly.memref<", "!llvm.ptr")
_KERNEL_NAME = re.compile(r"^ {4}\.name: +(\S+)$", re.MULTILINE)
_POINTER_ENTRY = re.compile(
    r"^( {6}- )\.address_space: +\S+\n(?=(?: {8}\.\S+.*\n)*? {8}\.value_kind: +global_buffer$)", re.MULTILINE
)


def note(kernel: Any, names: list[str]) -> None:
    """Remember on a ``gpu.func`` the parameter name of each of its arguments."""
    from flydsl._mlir import ir

    with kernel.context:
        kernel.attributes[_KERNEL_ATTRIBUTE] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def annotate(module: Any) -> None:
    """Collect the names of all kernels of `module` into its ``gpu.argument_names``."""
    from flydsl._mlir import ir

    with module.context:
        found: dict[str, Any] = {}
        for top in module.body.operations:
            if top.operation.name != "gpu.module":
                continue
            for function in top.regions[0].blocks[0].operations:
                if function.operation.name != "gpu.func" or _KERNEL_ATTRIBUTE not in function.attributes:
                    continue
                names = list(function.attributes[_KERNEL_ATTRIBUTE])
                arguments = function.regions[0].blocks[0].arguments
                pointers = [n for n, a in zip(names, arguments, strict=True) if str(a.type).startswith(_POINTER_TYPES)]
                found[ir.StringAttr(function.attributes["sym_name"]).value] = ir.ArrayAttr.get(pointers)
                del function.attributes[_KERNEL_ATTRIBUTE]
        module.operation.attributes[ATTRIBUTE] = ir.DictAttr.get(found)


def name_arguments(isa: str, names: dict[str, list[str]]) -> str:
    """`isa` with a ``.name`` in each pointer entry of the metadata of every kernel in `names`.

    A kernel whose number of pointer entries differs from its number of names is left as it is.
    """
    head, marker, metadata = isa.partition("\t.amdgpu_metadata\n")
    if not marker:
        return isa
    pieces, start = [], 0
    for kernel in _KERNEL_NAME.finditer(metadata):
        pieces.append(_named_block(metadata[start : kernel.end()], names.get(kernel.group(1), [])))
        start = kernel.end()
    return head + marker + "".join(pieces) + metadata[start:]


def _named_block(block: str, names: list[str]) -> str:
    """Metadata of one kernel with `names` in its pointer entries, if they are as many."""
    entries = list(_POINTER_ENTRY.finditer(block))
    if len(entries) != len(names):
        return block
    pieces, start = [], 0
    for entry, name in zip(entries, names, strict=True):
        pieces += [block[start : entry.end()], f"        .name:           {name}\n"]
        start = entry.end()
    return "".join(pieces) + block[start:]


def name_binaries(module: Any) -> None:
    """Apply `name_arguments` to every ISA text in a compiled module."""
    from flydsl._mlir import ir
    from flydsl._mlir.dialects import gpu

    attributes = module.operation.attributes
    if ATTRIBUTE not in attributes:
        return
    names = {item.name: [ir.StringAttr(n).value for n in item.attr] for item in ir.DictAttr(attributes[ATTRIBUTE])}
    with module.context:
        for operation in module.body.operations:
            if operation.operation.name != "gpu.binary":
                continue
            objects = []
            for attribute in ir.ArrayAttr(operation.attributes["objects"]):
                old = gpu.ObjectAttr(attribute)
                text = name_arguments(old.object.decode(), names).encode()
                objects.append(gpu.ObjectAttr.get(old.target, old.format, text, old.properties, old.kernels))
            operation.attributes["objects"] = ir.ArrayAttr.get(objects)
