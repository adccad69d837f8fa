"""Arguments are packed exactly or refused by name; kernarg and dispatch packet are read to their end, not written."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
import torch

from validation.emulator import Finding, LaunchError, emulate, launch, launch_raw
from validation.emulator.abi import pack_argument
from validation.emulator.program import KernelArg

from .texts import ARCHS, fields, text

ARGS = (("p", 8, "global_buffer"), ("n", 4, "by_value"), ("flag", 1, "by_value"))


def arg(name: str, size: int, kind: str) -> KernelArg:
    return KernelArg(0, size, kind, name)


BY_VALUE, POINTER = arg("n", 4, "by_value"), arg("p", 8, "global_buffer")

ACCEPTED: list[tuple[Any, KernelArg, bytes]] = [
    ((1 << 32) - 1, BY_VALUE, b"\xff\xff\xff\xff"),
    (-(1 << 31), BY_VALUE, b"\0\0\0\x80"),
    (True, arg("f", 1, "by_value"), b"\1"),
    (-128, arg("f", 1, "by_value"), b"\x80"),
    (255, arg("f", 1, "by_value"), b"\xff"),
    (1.5, BY_VALUE, b"\0\0\xc0\x3f"),
    (float("inf"), BY_VALUE, b"\0\0\x80\x7f"),
    (np.float16(1), arg("h", 2, "by_value"), b"\0\x3c"),
    (None, POINTER, bytes(8)),
    ((1 << 64) - 1, POINTER, b"\xff" * 8),
    (b"abc", arg("s", 3, "by_value"), b"abc"),
]


@pytest.mark.parametrize(("value", "to", "expected"), ACCEPTED)
def test_accepted(value: Any, to: KernelArg, expected: bytes) -> None:
    assert pack_argument(value, to) == expected


REFUSED: list[tuple[Any, KernelArg, type[Exception], str]] = [
    (1 << 32, BY_VALUE, LaunchError, r"argument 3 \(n\) is 4294967296, and takes 4 bytes: -2147483648 to 4294967295"),
    (-(1 << 31) - 1, BY_VALUE, LaunchError, r"argument 3 \(n\) is -2147483649"),
    (256, arg("f", 1, "by_value"), LaunchError, "is 256, and takes 1 bytes: -128 to 255"),
    (-1, POINTER, LaunchError, r"argument 3 \(p\) is -1, and takes 8 bytes: 0 to 18446744073709551615"),
    (1 << 64, POINTER, LaunchError, r"argument 3 \(p\)"),
    (1e39, BY_VALUE, LaunchError, r"argument 3 \(n\) is 1e\+39, beyond the largest float32"),
    (1.0, POINTER, TypeError, r"argument 3 \(p\) takes a tensor, None or an address, got 1.0 \(float\)"),
    (True, POINTER, TypeError, r"\(p\) takes a tensor, None or an address, got True \(bool\)"),
    (np.float64(1), POINTER, TypeError, r"\(p\) takes a tensor"),
    (np.int64(1), BY_VALUE, TypeError, r"\(n\) takes 4 bytes, got 8 \(int64\)"),
    (1.0, arg("h", 2, "by_value"), TypeError, r"\(h\): cannot pass float as 2 bytes"),
    (torch.zeros(4, device="meta"), POINTER, TypeError, r"\(p\) takes a strided tensor on the CPU, got one on meta"),
    (torch.zeros(4).to_sparse(), POINTER, TypeError, r"got one on cpu of layout torch.sparse_coo"),
    ("1", BY_VALUE, TypeError, r"\(n\): cannot pass str"),
    (None, BY_VALUE, TypeError, r"\(n\) takes a value of 4 bytes; None is a null pointer"),
    (torch.zeros(1), BY_VALUE, TypeError, r"\(n\) takes a value of 4 bytes, not a tensor"),
    (b"ab", BY_VALUE, TypeError, r"\(n\) takes 4 bytes, got 2"),
]


@pytest.mark.parametrize(("value", "to", "error", "words"), REFUSED)
def test_refused_by_name(value: Any, to: KernelArg, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        pack_argument(value, to, 3)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_number_of_arguments(arch: str) -> None:
    asm = text([], arch, args=ARGS)
    with pytest.raises(TypeError, match=r"probe takes 3 arguments, got 2; it takes: p\(8 bytes\), n\(4 bytes\), flag"):
        launch(asm, None, (1,), (64,), [None, 1])
    value = ctypes.c_uint64(0)
    with emulate(), pytest.raises(LaunchError, match="probe takes 3 arguments, the launch passes 1"):
        launch_raw(asm, "probe", (1, 1, 1), (64, 1, 1), [ctypes.addressof(value)])


@pytest.mark.parametrize("arch", ARCHS)
def test_both_front_doors_pack_alike(arch: str) -> None:
    """The three words of the segment, as the kernel reads them."""
    body = ["s_load_dwordx4 s[8:11], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)"]
    body += [f"v_mov_b32_e32 v{2 + i}, s{8 + i}" for i in range(4)] + ["global_store_dwordx4 v1, v[2:5], s[4:5]"]
    asm = text(body, arch, args=(("p", 8, "global_buffer"), ("n", 4, "by_value"), ("m", 4, "by_value")))
    out = torch.zeros(4, dtype=torch.int32)
    launch(asm, None, (1,), (1,), [out, -5, 7.0])
    first = out.tolist()
    out.zero_()
    values = [ctypes.c_uint64(out.data_ptr()), ctypes.c_int32(-5), ctypes.c_float(7.0)]
    with emulate():
        launch_raw(asm, "probe", (1, 1, 1), (1, 1, 1), [ctypes.addressof(v) for v in values], tensors=[out])
    assert out.tolist() == first
    assert first[2:] == [-5, 0x40E00000]


def found(asm: str, args: Any = None) -> list[Finding]:
    values = [torch.zeros(64, dtype=torch.int32)] if args is None else args
    return list(launch(asm, None, (1,), (64,), values).findings)


@pytest.mark.parametrize("arch", ARCHS)
def test_the_kernarg_segment_ends_where_metadata_says(arch: str) -> None:
    assert found(text(["s_load_dword s8, s[0:1], 0x4"], arch)) == []
    (overread,) = found(text(["s_load_dword s8, s[0:1], 0x8"], arch))
    assert "0 bytes past the end of kernarg (8 bytes)" in overread.message
    (far,) = found(text(["s_load_dwordx2 s[8:9], s[0:1], 0x4"], arch))
    assert "running 4 bytes over the end of kernarg" in far.message
    (before,) = found(text(["v_mov_b32_e32 v2, 0", "global_load_dword v3, v2, s[0:1] offset:-4"], arch))
    assert "4 bytes before kernarg" in before.message


@pytest.mark.parametrize("arch", ARCHS)
def test_the_kernarg_segment_is_padded_to_its_alignment(arch: str) -> None:
    args = (("p", 8, "global_buffer"), ("n", 4, "by_value"))
    body = ["s_load_dwordx2 s[8:9], s[0:1], 0x8"]
    assert found(text(body, arch, args=args, metadata={"kernarg_segment_align": 8}), [None, 1]) == []
    (overread,) = found(text(body, arch, args=args), [None, 1])
    assert "running 4 bytes over the end of kernarg (12 bytes)" in overread.message


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("store", ["global_store_dword v2, v2, s[0:1]", "global_atomic_add v2, v2, s[0:1] offset:4"])
def test_kernels_cannot_write_their_arguments(arch: str, store: str) -> None:
    load = ["s_load_dwordx2 s[8:9], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)"]
    body = ["v_mov_b32_e32 v2, 0", "s_waitcnt lgkmcnt(0)", store, *load, "v_mov_b32_e32 v3, s8"]
    out = torch.zeros(64, dtype=torch.int32)
    (finding,) = found(text([*body, "global_store_dword v1, v3, s[4:5]"], arch), [out])
    assert finding.argument == "kernarg"
    assert "into kernarg, which is read-only" in finding.message
    assert finding.occurrences == 64
    assert out[0].item() & 0xFFFFFFFF == out.data_ptr() & 0xFFFFFFFF


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("offset", "words"), [(-4, "4 bytes before kernarg (8 bytes)"), (8, "past the end of kernarg")]
)
def test_a_store_beside_the_arguments_is_not_one_into_them(arch: str, offset: int, words: str) -> None:
    body = ["v_mov_b32_e32 v2, 0", "s_waitcnt lgkmcnt(0)", f"global_store_dword v2, v2, s[0:1] offset:{offset}"]
    (finding,) = found(text(body, arch), [None])
    assert words in finding.message
    assert "read-only" not in finding.message


@pytest.mark.parametrize("arch", ARCHS)
def test_the_dispatch_packet_is_there_for_who_asks(arch: str) -> None:
    """Setup (dimensions), workgroup size x and y, grid size x and y (HSA runtime specification, AQL packet)."""
    asked = fields(user_sgpr_dispatch_ptr=1, user_sgpr_count=4)
    body = ["s_load_dwordx2 s[4:5], s[2:3], 0x0", "s_load_dwordx4 s[8:11], s[0:1], 0x0", "s_waitcnt lgkmcnt(0)"]
    body += ["v_mov_b32_e32 v8, 0", *(f"v_mov_b32_e32 v{2 + i}, s{8 + i}" for i in range(4))]
    body += ["s_mov_b64 exec, 1", "global_store_dwordx4 v8, v[2:5], s[4:5]"]
    out = torch.zeros(4, dtype=torch.int32)
    asm = text(body, arch, descriptor=asked).replace("\ts_load_dwordx2 s[4:5], s[0:1], 0x0\n", "")
    result = launch(asm, None, (3, 2), (32, 4), [out])
    assert result.findings == ()
    assert out.tolist() == [2 | 2 << 16, 32 | 4 << 16, 1, 96]
    past = asm.replace("s_load_dwordx4 s[8:11], s[0:1], 0x0", "s_load_dwordx4 s[8:11], s[0:1], 0x38")
    (finding,) = launch(past, None, (3, 2), (32, 4), [out]).findings
    assert "running 8 bytes over the end of dispatch packet (64 bytes)" in finding.message


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("axes", "expected"), [(0, 3), (1, 3 | 2 << 10), (2, 3 | 2 << 10 | 1 << 20)])
def test_workitem_ids_that_the_descriptor_asks_for(arch: str, axes: int, expected: int) -> None:
    """v0 holds x, y and z in ten bits each, and zeros for axes that are not enabled (LLVM AMDGPUUsage, packed ids)."""
    body = ["v_lshlrev_b32_e32 v3, 2, v4", "s_waitcnt lgkmcnt(0)", "global_store_dword v3, v2, s[4:5]"]
    asm = text(body, arch, descriptor=fields(system_vgpr_workitem_id=axes))
    asm = asm.replace("\tv_and_b32_e32 v0, 0x3ff, v0", "\tv_mov_b32_e32 v2, v0\n\tv_mbcnt_lo_u32_b32 v4, -1, 0")
    asm = asm.replace("v_mbcnt_lo_u32_b32 v4, -1, 0", "v_mbcnt_lo_u32_b32 v4, -1, 0\n\tv_mbcnt_hi_u32_b32 v4, -1, v4")
    out = torch.zeros(64, dtype=torch.int32)
    launch(asm, None, (1,), (4, 4, 4), [out])
    assert out[3 + 4 * 2 + 16].item() == expected
