"""Kernel text to a code object that ``hipModuleLoadData`` takes.

There is no assembler to install: Triton brings LLVM's and a linker inside its library (PyTorch's ROCm build depends on
it), and an installed ROCm has a ``clang``. FlyDSL's bundled MLIR assembles only what it has compiled itself and links
through ROCm, so it is of no use here; comgr would do, through its own C interface, and is not connected.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

ROCM = "/opt/rocm"


class AssemblerError(RuntimeError):
    """There is no assembler, or it refuses a text; the message holds its words."""


Assemble = Callable[[str, str], bytes]


def assembler() -> tuple[str, Assemble]:
    """The first assembler that is here, with its name: a function from (text, arch) to the bytes of a code object.

    Raises :class:`AssemblerError` naming what was looked for.
    """
    try:
        import triton
        from triton._C.libtriton import amd
        from triton.backends.amd import compiler
    except ImportError as error:
        missing = f"triton: {error}"
    else:
        # triton has moved its entry from the library to a module of its own
        entry = getattr(compiler, "assemble_amdgcn", None) or getattr(amd, "assemble_asm", None)
        if entry and hasattr(amd, "link_hsaco"):
            return f"LLVM of triton {triton.__version__}", _with_triton(entry, amd.link_hsaco)
        missing = f"triton {triton.__version__}: no assembler or no linker where they are known to be"
    clang = _clang()
    if clang is not None:
        return str(clang), lambda text, arch: _with_clang(clang, text, arch)
    raise AssemblerError(f"no assembler for AMD GPUs (looked for {missing}; {ROCM}/llvm/bin/clang, ROCM_PATH)")


def _with_triton(entry: Callable[[str, str, str], bytes], link: Callable[[str, str], None]) -> Assemble:
    def assemble(text: str, arch: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            relocatable, linked = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
            try:
                relocatable.write_bytes(entry(text, arch, ""))
                link(str(relocatable), str(linked))
            except RuntimeError as error:
                raise AssemblerError(str(error)) from error
            return linked.read_bytes()

    return assemble


def _clang() -> Path | None:
    folder = Path(os.environ.get("ROCM_PATH") or ROCM)
    found = shutil.which("clang", path=os.pathsep.join(map(str, (folder / "llvm/bin", folder / "lib/llvm/bin"))))
    return Path(found) if found else None


def _with_clang(clang: Path, text: str, arch: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, linked = Path(folder, "kernel.s"), Path(folder, "kernel.hsaco")
        source.write_text(text)
        command = [str(clang), "-x", "assembler", "--target=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-nogpulib"]
        done = subprocess.run([*command, str(source), "-o", str(linked)], capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise AssemblerError((done.stderr.strip() or f"{clang} exited with {done.returncode}")[:2000])
        return linked.read_bytes()
