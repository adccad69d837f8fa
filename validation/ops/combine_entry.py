"""COMBINE, ``flydsl_gr_two_stage_combine``: its shape grid and error contract.

Nothing here imports torch or the op itself; the driver that does is named by reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from validation.grid import Anchor, Axis, AxisValue, Between, Grid, Rule, named
from validation.operation import ContractRow, EntryPoint
from validation.ops import shapes_due
from validation.ops.axes import ELEMENT, KERNEL_LIMITS, ROWS

#: Largest row count for which the op may allocate its own output in a case. Larger ones must be caller-owned, for
#: only the caller can supply memory that exists where it is touched and nowhere else.
MOST_ALLOCATED_ROWS = 512

#: A row count far beyond any real call. At the widest HS it is more than one launch covers: a contract row's case.
LONGEST = 10_000_000


@dataclass(frozen=True)
class RowsPast:
    """The row count at which a [M, HC*HS] tensor first passes ``limit`` (counted in ``unit`` bytes), plus a few."""

    limit: int
    unit: int

    def __call__(self, params: Mapping[str, Any]) -> int:
        """Rows for the case's HC and HS."""
        width = params["hc"] * params["hs"] * self.unit
        return -(-self.limit // width) + 3


def _rows(*rows: tuple[int, str, str]) -> tuple[AxisValue, ...]:
    return tuple(AxisValue(f"m{m}", m, role, why) for m, role, why in rows)


_M = Axis(
    "m",
    (
        *_rows(
            (1, "production", "decode, one token"),
            (0, "zero", "empty outputs, no launch"),
            (2, "tiny", ""),
            (3, "tiny", "not a multiple of 2 or 4"),
            (8, "production", "decode"),
            (13, "odd", ""),
            (63, "tile boundary", "one row short of a 64-row tile"),
            (64, "production", "smallest key of the tuned table"),
            (65, "tile boundary", "one row past a 64-row tile"),
            (512, "production", ""),
            (1024, "production", ""),
            (2431, "tile boundary", "last workgroup of a two-row plan is half full"),
            (8191, "tile boundary", "one row short of a four-row workgroup"),
            (8192, "production", "prefill"),
            (8193, "tile boundary", "last workgroup of a four-row plan holds one row"),
            (65536, "production", "the largest published prefill"),
        ),
        AxisValue("m2g", RowsPast(1 << 31, ELEMENT), "beyond 2^31", "bytes of residual and r2 pass 2^31"),
        AxisValue("m4g", RowsPast(1 << 32, ELEMENT), "beyond 2^32", "their bytes pass 2^32, their elements 2^31"),
        AxisValue("m4ge", RowsPast(1 << 32, 1), "beyond 2^32", "their elements pass 2^32"),
        AxisValue("m10m", LONGEST, "long", "ten million tokens"),
    ),
    Between("m", 0, 1024),
)
_HC = Axis(
    "hc", (AxisValue("hc4", 4, "production"), AxisValue("hc2", 2, "variation"), AxisValue("hc8", 8, "variation"))
)
_HS = Axis(
    "hs",
    (
        AxisValue("hs2560", 2560, "production"),
        AxisValue("hs8192", 8192, "variation", "wide stream"),
        AxisValue("hs40960", 40960, "variation", "widest stream"),
    ),
)
_INJECTION = Axis(
    "injection_stride",
    (
        AxisValue("inj336", 336, "production", "a view of packed with n_pad = 336"),
        AxisValue("injdense", lambda params: params["hc"], "variation", "contiguous injection"),
        AxisValue("inj384", 384, "production", "a view of packed with n_pad = 384"),
        AxisValue("injodd", 13, "odd", "rows start on odd elements"),
    ),
    apart=(AxisValue("injfar", 1 << 31, "beyond 2^31", "injection rows are 2^31 elements apart"),),
)
_WEIGHT_DTYPE = Axis(
    "weight_dtype", (AxisValue("wbf16", "bfloat16", "production"), AxisValue("wf32", "float32", "production"))
)
_WEIGHT_SHAPE = Axis(
    "weight_shape",
    (AxisValue("wshared", "shared", "production"), AxisValue("wfull", "full", "variation", "norm weight [HC*HS]")),
)
_VALUES = Axis(
    "values",
    (
        AxisValue("normal", "normal", "production"),
        AxisValue("exact", "exact", "variation", "small integers: the result must be right to the bit"),
        AxisValue("wide", "wide", "variation", "magnitudes from 2^-60 to 2^60"),
        AxisValue("specials", "specials", "variation", "NaN, infinities, signed zeros, denormals, largest values"),
    ),
)
_OUT = Axis(
    "out",
    (
        AxisValue("outgiven", True, "production", "the caller owns the output"),
        AxisValue("outalloc", False, "production", "the op allocates its output"),
    ),
)


def _may_allocate(m: Any, given: bool) -> bool:
    return given or (not callable(m) and m <= MOST_ALLOCATED_ROWS)


_AXES = (_M, _HC, _HS, _INJECTION, ROWS, _WEIGHT_DTYPE, _WEIGHT_SHAPE, _VALUES, _OUT)
#: Cheap cases each of which alone shows some defect of the mutant corpus (``mutants/cases.toml``).
_TELLING = {
    "m2.hc2.hs8192.inj336.rowspadded.wf32.wfull.normal.outalloc": "rows with gaps",
    "m2431.hc2.hs2560.injodd.rowspadded.wf32.wshared.normal.outgiven": "two rows a workgroup, the last holds one",
    "m10m.hc2.hs2560.inj336.rowspadded.wf32.wfull.exact.outgiven": "elements of block_output and injection pass 2^31",
}

COMBINE_GRID = Grid(
    axes=_AXES,
    rules=(
        Rule(
            ("m", "out"),
            _may_allocate,
            f"the op can allocate its own output for at most {MOST_ALLOCATED_ROWS} rows here",
        ),
        Rule(
            ("m", "hs"),
            lambda m, hs: (m, hs) != (LONGEST, 40960),
            "one launch covers fewer than ten million rows of 40960 columns a stream",
        ),
    ),
    anchors=(
        Anchor({"m": "m1", "out": "outalloc"}, "production decode, as vLLM calls it"),
        Anchor({"m": "m64"}, "production shape at the smallest tuned row count"),
        Anchor({"m": "m8192"}, "production prefill"),
        Anchor({"m": "m8193", "values": "exact"}, "tail of the last workgroup, right to the bit"),
        Anchor({"m": "m4ge", "values": "exact"}, "production width past 2^32 elements, right to the bit"),
        Anchor({"m": "m3", "row_padding": "rowsfar"}, "rows of residual and block_output are 2^31 elements apart"),
        Anchor({"m": "m3", "injection_stride": "injfar"}, "rows of injection are 2^31 elements apart"),
        *named(_AXES, _TELLING),
    ),
)

_WIDTH = "HC*HS"
COMBINE_CONTRACT = (
    ContractRow("zero_rows", "M = 0 gives empty outputs without a launch", None),
    ContractRow("zero_rows_out", "M = 0 with a caller's output returns it without a launch", None),
    ContractRow("other_arch", "an arch without kernels", "NotImplementedError", ("arch", "gfx942", "gfx950", "gfx90a")),
    ContractRow("hc_count_3", "HC that is not 2, 4 or 8", "ValueError", ("hc_count", "2, 4, 8", "3")),
    ContractRow("hs_untileable", "HS that no tile divides", "ValueError", ("residual", "512", "2568")),
    ContractRow("eps_zero", "eps must be above zero", "ValueError", ("eps", "above 0", "0.0")),
    ContractRow("eps_denormal", "eps that is 0 to a kernel", "ValueError", ("eps", "normal range of float32", "1e-40")),
    ContractRow("eps_overflow", "eps beyond float32", "ValueError", ("eps", "normal range of float32", "1e+39")),
    ContractRow(
        "operator_hc_count_3", "HC of 3, given to the operator itself", "ValueError", ("hc_count", "2, 4, 8", "3")
    ),
    ContractRow(
        "operator_eps_zero", "eps of zero, given to the operator itself", "ValueError", ("eps", "above 0", "0.0")
    ),
    ContractRow("residual_dtype", "residual must be bf16", "ValueError", ("residual", "bfloat16", "float32")),
    ContractRow("residual_rank", "residual must be [M, HC*HS]", "ValueError", ("residual", "rank 2", _WIDTH)),
    ContractRow(
        "residual_unaligned",
        "residual that starts between two 16-byte units",
        "ValueError",
        ("residual", "aligned to 16 bytes", "storage offset"),
    ),
    ContractRow(
        "residual_row_stride",
        "rows of residual that are not 16 bytes apart",
        "ValueError",
        ("residual", "row stride", "multiple of 8", "10241"),
    ),
    ContractRow(
        "too_many_rows",
        "more rows than one launch covers",
        "ValueError",
        ("residual", "rows in one launch", "60000000"),
    ),
    ContractRow(
        "block_output_dtype", "block_output must be bf16", "ValueError", ("block_output", "bfloat16", "float16")
    ),
    ContractRow(
        "block_output_dtype_again",
        "block_output in float16, after the same call in bf16 was accepted",
        "ValueError",
        ("block_output", "bfloat16", "float16"),
    ),
    ContractRow("block_output_rows", "one row too many", "ValueError", ("block_output", "[M, HS]", "[5, 2560]")),
    ContractRow("block_output_width", "one column too few", "ValueError", ("block_output", "[M, HS]", "[4, 2559]")),
    ContractRow("injection_dtype", "injection must be bf16", "ValueError", ("injection", "bfloat16", "float32")),
    ContractRow("injection_shape", "injection of another HC", "ValueError", ("injection", "[M, HC]", "[4, 8]")),
    ContractRow(
        "injection_inner",
        "injection whose inner dimension is not contiguous",
        "ValueError",
        ("injection", "contiguous", "[1, 4]"),
    ),
    ContractRow(
        "norm_weight_dtype",
        "norm_weight must be bf16 or float32",
        "ValueError",
        ("norm_weight", "bfloat16", "float32", "float16"),
    ),
    ContractRow(
        "norm_weight_shape",
        "norm_weight that is neither [HS] nor [HC*HS]",
        "ValueError",
        ("norm_weight", "[HS]", "[2561]"),
    ),
    ContractRow("device_block_output", "block_output on another device", "ValueError", ("block_output", "cpu", "meta")),
    ContractRow("device_injection", "injection on another device", "ValueError", ("injection", "cpu", "meta")),
    ContractRow("norm_weight_strided", "norm_weight with gaps", "ValueError", ("norm_weight", "contiguous", "[2]")),
    ContractRow(
        "norm_weight_sparse", "norm_weight in a sparse layout", "ValueError", ("norm_weight", "dense", "sparse_coo")
    ),
    ContractRow("stream_device", "a stream of another device", "ValueError", ("stream", "cpu", "cuda:1")),
    ContractRow("stream_number", "a stream that is none", "TypeError", ("stream", "torch.cuda.Stream", "int 7")),
    ContractRow("out_shape", "output of another shape", "ValueError", ("out", "[4, 10240]", "[4, 10248]")),
    ContractRow("out_dtype", "output of another dtype", "ValueError", ("out", "bfloat16", "float32")),
    ContractRow("out_strided", "output that is not contiguous", "ValueError", ("out", "contiguous", "10248")),
    ContractRow("out_unaligned", "output between two 16-byte units", "ValueError", ("out", "aligned to 16 bytes")),
    ContractRow("out_tracked", "output that autograd records", "ValueError", ("out", "requires_grad", "no_grad")),
    ContractRow("out_device", "output on another device", "ValueError", ("out", "cpu", "meta")),
    ContractRow("out_is_residual", "in-place call", "ValueError", ("out", "disjoint", "residual")),
    ContractRow(
        "out_overlaps_input",
        "output that shares its last row with block_output",
        "ValueError",
        ("out", "disjoint", "block_output"),
    ),
    ContractRow(
        "out_in_gaps",
        "output among the rows of a strided residual",
        "ValueError",
        ("out", "disjoint", "residual"),
    ),
)

COMBINE = EntryPoint(
    name="combine",
    function="flydsl_gr_two_stage_combine",
    grid=COMBINE_GRID,
    driver="validation.ops.combine:CombineDriver",
    contract=COMBINE_CONTRACT,
    variant=lambda params: f"hc{params['hc']}.hs{params['hs']}",
    launches=lambda params: params["m"] > 0,
    limits=KERNEL_LIMITS,
    paths=lambda params: ("combine",),
    invalid={"weight_dtype": "float16"},
    shapes=shapes_due.combine,
)
