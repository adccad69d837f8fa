"""What a kernel's assembly says to the machine, without what it says to people: one hash for each kernel.

Left out are comments, blank lines, line tables (``.loc``, ``.file``), call frame information, the sections of the
debugger, and labels that only these use; other local labels are numbered in the order in which they occur. The
descriptor (registers, LDS, kernel arguments) and the constants stay.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from validation.base.revision import package_folder
from validation.stages.isa import kernel_resources

_DEBUGGER = re.compile(r"\.(loc|file|cfi_\w+|ident|addrsig\w*|num\w*_sgpr|amdgcn_target_comment)\b")
_SECTION = re.compile(r'\.(?:section\s+"?(?P<name>[^,"\s]+)|(?:text|data|bss|previous)\b)')
_FILE = re.compile(r'^\s*\.file\s+\d+\s+(?:"(?P<folder>[^"]*)"\s+)?"(?P<name>[^"]*)"', re.MULTILINE)
_LABEL = re.compile(r"\.L[\w.$]*")
_DEFINITION = re.compile(rf"{_LABEL.pattern}:")
#: The emulator's plugin names a helper's caller behind the helper, as ``helper.py via kernel.py:12``.
_VIA, _LINE = " via ", re.compile(r":\d+$")
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')


def normalised(asm: str) -> list[str]:
    """The lines of ``asm`` that decide what a GPU does, in order, in one spelling."""
    kept = list(_decisive(asm))
    used = {label for line in kept if not _DEFINITION.fullmatch(line) for label in _LABEL.findall(line)}
    kept = [line for line in kept if not _DEFINITION.fullmatch(line) or line[:-1] in used]
    labels: dict[str, str] = {}
    return [_LABEL.sub(lambda m: labels.setdefault(m.group(), f".L{len(labels)}"), line) for line in kept]


def _decisive(asm: str) -> Iterator[str]:
    """Bare lines, without those of the debugger. The metadata count wherever they stand."""
    debugging = metadata = False
    for raw in asm.splitlines():
        line = _bare(raw)
        found = _SECTION.match(line)
        if found:
            name = found["name"] or ""
            debugging = name.startswith((".debug", ".note.GNU"))
        metadata = line == ".amdgpu_metadata" or (metadata and line != ".end_amdgpu_metadata")
        if line and (metadata or not (debugging or _DEBUGGER.match(line))):
            yield line


def _bare(line: str) -> str:
    """``line`` without its comment and with single spaces, text in quotes left as it is."""
    parts = _QUOTED.split(line)
    kept = []
    for i, part in enumerate(parts):
        if i % 2:
            kept.append(part)
            continue
        cut = re.split(r";|//", part, maxsplit=1)
        kept.append(re.sub(r"\s+", " ", cut[0]))
        if len(cut) > 1:
            break
    return "".join(kept).strip()


def kernel_hashes(asm: str) -> dict[str, str]:
    """Kernel name to a hash of the code object that holds it; kernels of one text change together.

    ``MetadataError`` when the text names no kernel.
    """
    whole = hashlib.sha256("\n".join(normalised(asm)).encode()).hexdigest()
    return {kernel.kernel: whole for kernel in kernel_resources(asm)}


def source_files(asm: str, packages: Sequence[str]) -> list[str]:
    """The files of ``packages`` that the line table names, whose code became instructions: ``package/module.py``."""
    named = [str(PurePosixPath(found["folder"] or "") / found["name"]) for found in _FILE.finditer(asm)]
    places = [_LINE.sub("", place) for name in named for place in name.split(_VIA)]
    roots = {package: package_folder(package) for package in packages}
    return sorted(
        {
            f"{package}/{Path(place).resolve().relative_to(root).as_posix()}"
            for place in places
            for package, root in roots.items()
            if Path(place).resolve().is_relative_to(root)
        }
    )


def facts(texts: Sequence[str], packages: Sequence[str]) -> dict[str, Any]:
    """What a compile case says of its kernels' code, for a comparison: a hash a kernel, and the files it came from."""
    found: dict[str, set[str]] = {}
    for text in texts:
        for kernel, digest in kernel_hashes(text).items():
            found.setdefault(kernel, set()).add(digest)
    code = {kernel: hashlib.sha256("".join(sorted(many)).encode()).hexdigest() for kernel, many in found.items()}
    return {"code": code, "sources": sorted({file for text in texts for file in source_files(text, packages)})}
