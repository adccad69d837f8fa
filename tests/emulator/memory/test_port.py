"""The seam: observers see every access with its cache bits, and cache maintenance, in program order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance.memory_support import arena
from validation.emulator.launch import Launch
from validation.emulator.machine.transfer import MemoryOperation
from validation.emulator.memory.access import CacheBits, Kind, Maintenance, Space
from validation.emulator.program import parse_program

_TEXT = """
	.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
	.text
probe:
	global_load_dword v1, v0, s[2:3] sc1
	buffer_wbl2 sc1
	global_atomic_add v2, v0, v3, s[2:3] sc0 sc1
	buffer_inv sc0 sc1
	ds_write_b32 v0, v1
	global_store_dword v0, v1, s[2:3] nt
	s_endpgm
	.section .rodata
	.amdhsa_kernel probe
		.amdhsa_group_segment_fixed_size 256
		.amdhsa_next_free_vgpr 8
		.amdhsa_accum_offset 8
	.end_amdhsa_kernel
"""


class Recorder:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def observe(self, port: Any, w: Any, access: Any) -> None:
        self.seen.append((access.space, access.kind, access.cache, access.nbytes))

    def maintain(self, port: Any, w: Any, what: Any, cache: Any, inst: Any) -> None:
        self.seen.append((what, cache, inst.mnemonic))


def test_observers_see_everything_in_order() -> None:
    memory, recorder = arena(), Recorder()
    program = parse_program(_TEXT)
    launch = Launch(program, program.kernel(), (1, 1, 1), (64, 1, 1), b"", 0, memory.space, ())
    try:
        launch.observers = [recorder]
        chunk = launch.chunk([(0, 0, 0)])
        chunk.w.S[2], chunk.w.S[3] = memory.address & 0xFFFFFFFF, memory.address >> 32
        chunk.w.V[0, 0] = np.arange(64) * 4
        assert isinstance(chunk.steps[0].run, MemoryOperation)
        assert isinstance(chunk.steps[2].run, MemoryOperation)
        chunk.run()
    finally:
        launch.close()
    assert recorder.seen == [
        (Space.GLOBAL, Kind.LOAD, CacheBits(sc1=True), 4),
        (Maintenance.WRITE_BACK, CacheBits(sc1=True), "buffer_wbl2"),
        (Space.GLOBAL, Kind.ATOMIC, CacheBits(sc0=True, sc1=True), 4),
        (Maintenance.INVALIDATE, CacheBits(sc0=True, sc1=True), "buffer_inv"),
        (Space.LDS, Kind.STORE, CacheBits(), 4),
        (Space.GLOBAL, Kind.STORE, CacheBits(nt=True), 4),
    ]
    # one global store; the atomic adds 0 and the LDS store is nobody else's business: no progress for one that polls
    assert chunk.w.port.changes == 1
