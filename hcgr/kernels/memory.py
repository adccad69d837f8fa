"""Memory accesses that K2 and the skinny K1 trace inline; import by name, as from :mod:`hcgr.kernels.device`.

Publication between workgroups of one launch follows LLVM's AMDGPUUsage (memory model of gfx942) and its
available-on-write / visible-on-read intrinsics: the publisher's stores go past the caches that other
workgroups do not share, so the arrival atomic needs no write-back and no invalidate of whole caches.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm

#: Metadata that names the scope of an available-on-write store.
_AGENT = '#llvm.md_node<#llvm.md_string<"agent">>'
#: "This operation makes nothing else available or visible": drops BUFFER_WBL2 and BUFFER_INV, keeps the waits.
_NOTHING_ELSE = '#llvm.mmra_tag<"amdgcn-av":"none">'


def read8(ptr: Any, offset: Any) -> Any:
    """Eight elements at `offset` from `ptr`, 16-byte aligned, that others read too: no streaming hint."""
    return fx.generic_load(ptr + offset, count=8)


def write8(ptr: Any, offset: Any, value: Any) -> None:
    """Eight elements to `offset` from `ptr`, 16-byte aligned, kept in the cache for a neighbour's half line."""
    fx.generic_store(ptr + offset, value)


def _agent_scope() -> Any:
    return llvm.mlir_metadata_as_value(ir.Attribute.parse(_AGENT))


def publish4(ptr: Any, value: Any, av: bool) -> None:
    """Four f32 to a 16-byte aligned address, available to every workgroup once ``vmcnt`` has counted it.

    Args:
        av: ``llvm.amdgcn.av.store.b128`` (``global_store_dwordx4 sc1``); else volatile (``sc0 sc1``).
    """
    if not av:
        fx.generic_store(ptr, value, volatile=True)
        return
    words = value.bitcast(fx.Int32).ir_value()
    llvm.call_intrinsic(None, "llvm.amdgcn.av.store.b128", [ptr.llvm_ptr, words, _agent_scope()], [], [])


def observe4(ptr: Any, av: bool) -> Any:
    """Four f32 that other workgroups published, read past the caches that may hold an older line."""
    if not av:
        return fx.generic_load(ptr, count=4, volatile=True)
    words = ir.VectorType.get([4], fx.Int32.ir_type)
    arguments = [ptr.llvm_ptr, _agent_scope()]
    loaded = llvm.call_intrinsic(words, "llvm.amdgcn.av.load.b128", arguments, [], [])
    return fx.Vector(loaded, (4,), fx.Int32).bitcast(fx.Float32)


def arrive(counter: Any) -> Any:
    """Add 1 to an arrival counter, agent scope, acquire and release; the value before, as 32 bits.

    A plain add: a slot only counts up, and wraps after 2**32 arrivals, which a power of two divides. The MMRA
    tag is sound only because all that the counter guards goes through :func:`publish4` and :func:`observe4`.
    """
    operation = llvm.AtomicRMWOp(
        llvm.AtomicBinOp.add,
        counter.llvm_ptr,
        fx.Int32(1).ir_value(),
        llvm.AtomicOrdering.acq_rel,
        syncscope="agent",
        alignment=4,
    )
    operation.operation.attributes["llvm.mmra"] = ir.Attribute.parse(_NOTHING_ELSE)
    return fx.Int32(operation.result)
