"""Message passing in LLVM IR, which LLVM compiles as its memory model says: every order, scope and address space."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import torch

from validation.emulator import AddressSpace, LaunchResult, launch

_ATTRIBUTES = " ".join(
    f'"amdgpu-no-{name}"'
    for name in (
        "dispatch-ptr", "queue-ptr", "dispatch-id", "implicitarg-ptr", "workgroup-id-y", "workgroup-id-z",
        "workitem-id-y", "workitem-id-z", "hostcall-ptr", "multigrid-sync-arg", "heap-ptr", "default-queue",
        "completion-action", "lds-kernel-id", "flat-scratch-init",
    )
)  # fmt: skip
_MODULE = """target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
@in_lds = internal addrspace(3) global [64 x {type}] poison, align 16
define amdgpu_kernel void @pass(ptr addrspace(1) noalias %data, ptr addrspace(1) %flags, ptr addrspace(1) %out) #0 {{
  %group = call i32 @llvm.amdgcn.workgroup.id.x()
  %thread = call i32 @llvm.amdgcn.workitem.id.x()
  %wave = lshr i32 %thread, 6
  %lane = and i32 %thread, 63
  %generic = addrspacecast ptr addrspace(1) %flags to ptr
  %item = getelementptr i32, ptr addrspace(1) %data, i32 %lane
  %result = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  %flag = getelementptr {type}, {pointer} {flags}, i32 {index}
  {clear}
  %produces = icmp eq i32 {who}, 0
  br i1 %produces, label %produce, label %wait
produce:
  store {atomic} i32 %lane, ptr addrspace(1) %item {relaxed}
  {release_fence}
  {signal}
  br label %end
wait:
  {poll}
  %up = icmp eq {type} %seen, 1
  br i1 %up, label %consume, label %wait
consume:
  {acquire_fence}
  %got = load {atomic} i32, ptr addrspace(1) %item {relaxed}
  store i32 %got, ptr addrspace(1) %result
  br label %end
end:
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="{lanes},{lanes}" {attributes} }}
"""
_CLEAR = """store {type} 0, {pointer} %flag
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire"""
_POINTERS = {"global": "ptr addrspace(1)", "generic": "ptr", "lds": "ptr addrspace(3)"}
_FLAGS = {"global": "%flags", "generic": "%generic", "lds": "@in_lds"}


@dataclass(frozen=True)
class Message:
    """Lanes hand a number each to the lanes of other workgroups, or (``inside``) of another wave.

    scope: of LLVM, empty for system. release, acquire: orders of the flag's store and load, or with ``fences`` of
    fences beside relaxed ones. place: address space of the flag. width: its bits. shared: one flag for all lanes.
    signal, poll: atomic operations instead of store and load. atomic: the data is relaxed atomic, too.
    """

    name: str
    scope: str = "agent"
    release: str = "release"
    acquire: str = "acquire"
    fences: bool = False
    place: str = "global"
    width: int = 32
    inside: bool = False
    shared: bool = False
    signal: str = ""
    poll: str = ""
    atomic: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "-")

    @property
    def lanes(self) -> int:
        return 128 if self.inside else 64

    def text(self) -> str:
        """LLVM IR."""
        scope = f'syncscope("{self.scope}")' if self.scope else ""
        kind, pointer = f"i{self.width}", _POINTERS[self.place]
        release, acquire = ("monotonic", "monotonic") if self.fences else (self.release, self.acquire)
        align = f"align {self.width // 8}"
        signal = f"store atomic {kind} 1, {pointer} %flag {scope} {release}, {align}"
        poll = f"%seen = load atomic {kind}, {pointer} %flag {scope} {acquire}, {align}"
        if self.signal:
            signal = f"%old = atomicrmw {self.signal} {pointer} %flag, {kind} 1 {scope} {release}, {align}"
        if self.poll:
            poll = f"%seen = atomicrmw {self.poll} {pointer} %flag, {kind} 0 {scope} {acquire}, {align}"
        fence = [f"fence {scope} {o}" if self.fences and o != "monotonic" else "" for o in (self.release, self.acquire)]
        return _MODULE.format(
            type=kind, pointer=pointer, flags=_FLAGS[self.place], index="0" if self.shared else "%lane",
            clear=_CLEAR.format(type=kind, pointer=pointer) if self.place == "lds" else "",
            who="%wave" if self.inside else "%group", atomic="atomic" if self.atomic else "",
            relaxed=f"{scope} monotonic, align 4" if self.atomic else "", release_fence=fence[0], signal=signal,
            poll=poll, acquire_fence=fence[1], lanes=self.lanes, attributes=_ATTRIBUTES,
        )  # fmt: skip


def _places(scope: str, inside: bool) -> list[Message]:
    title = scope or "system"
    base = Message(title, scope, inside=inside)
    found = []
    for place in ("global", "generic", *(["lds"] if inside and not scope.endswith("one-as") else [])):
        at = replace(base, place=place)
        found += [
            replace(at, name=f"{title} {place}"),
            replace(at, name=f"{title} {place} fences", fences=True),
            replace(at, name=f"{title} {place} one flag, fences", fences=True, shared=True),
            replace(at, name=f"{title} {place} atomics", signal="xchg", poll="or"),
            replace(at, name=f"{title} {place} seq_cst", release="seq_cst", acquire="seq_cst"),
        ]
    return found


#: What LLVM makes of these is right, as it stands in AMDGPUUsage.
RIGHT = (
    *_places("agent", False), *_places("", False), *_places("agent-one-as", False), *_places("workgroup", True),
    *_places("workgroup-one-as", True),
    Message("agent inside a workgroup", inside=True),
    Message("agent byte", width=8), Message("agent short", width=16), Message("agent quad", width=64),
    Message("workgroup byte", "workgroup", width=8, inside=True),
    Message("agent count", signal="add", fences=True, release="acq_rel", acquire="acq_rel"),
    Message("agent atomic data", atomic=True),
)  # fmt: skip
#: And of these it is not: what the finding says.
WRONG = {
    Message("relaxed store", release="monotonic"): "not waited for with vmcnt",
    Message("relaxed load", acquire="monotonic"): "no buffer_inv sc1",
    Message("relaxed generic load", acquire="monotonic", place="generic"): "no buffer_inv sc1",
    Message("relaxed count", signal="add", release="monotonic"): "not waited for with vmcnt",
    Message("relaxed exchange, relaxed or", signal="xchg", poll="or", acquire="monotonic"): "no buffer_inv sc1",
    Message("acquire fence missing", fences=True, acquire="monotonic"): "no buffer_inv sc1",
    Message("release fence missing", fences=True, release="monotonic"): "not waited for with vmcnt",
    Message("workgroup scope between workgroups", "workgroup"): "each of them needs sc1",
    Message("workgroup fences between workgroups", "workgroup", fences=True): "each of them needs sc1",
    Message("wavefront scope between workgroups", "wavefront"): "nothing orders them",
    Message("relaxed atomic data", release="monotonic", atomic=True): "not waited for with vmcnt",
}


def assemble(ir: str, arch: str) -> str:
    """AMDGPU assembly text of LLVM IR. Needs Triton, whose LLVM it is."""
    from triton._C.libtriton import llvm

    llvm.init_targets()
    text: str = llvm.translate_to_asm(ir, "amdgcn-amd-amdhsa", arch, "", [], False, False, False)
    # LLVM takes its data layout from the target
    return re.sub(r"\s*;.*", "", text)


def run(text: str, message: Message, **options: Any) -> tuple[LaunchResult, torch.Tensor]:
    """Launch; ``out`` (int32 [64]) must hold the lane numbers."""
    space = AddressSpace()
    data, flags, out = (space.empty((256,), torch.int32, n, initialised=True) for n in ("data", "flags", "out"))
    groups = 1 if message.inside else 3
    result = launch(text, "pass", (groups,), (message.lanes,), [data, flags, out], space=space, **options)
    return result, out[:64]
