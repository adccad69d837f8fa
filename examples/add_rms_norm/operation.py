"""What the validator is told of the operation: its space, its contract, its driver. Imports neither torch nor kernel."""

from validation.grid import Anchor, Axis, AxisValue, Between, Grid
from validation.operation import ContractRow, EntryPoint, Operation

GRID = Grid(
    axes=(
        Axis(
            "m",
            (
                AxisValue("m1", 1, "production", "decode"),
                AxisValue("m0", 0, "zero", "empty outputs, no launch"),
                AxisValue("m3", 3, "tiny", "one row short of a workgroup"),
                AxisValue("m5", 5, "tile boundary", "one row past a workgroup"),
                AxisValue("m63", 63, "odd"),
                AxisValue("m256", 256, "production"),
                AxisValue("m2g", lambda p: (1 << 30) // p["columns"] + 3, "beyond 2^31", "bytes of a tensor"),
                AxisValue("m4g", lambda p: (1 << 31) // p["columns"] + 3, "beyond 2^32", "bytes; elements pass 2^31"),
            ),
            Between("m", 0, 256),
        ),
        Axis(
            "columns",
            (
                AxisValue("n4096", 4096, "production"),
                AxisValue("n8", 8, "tiny", "one lane"),
                AxisValue("n520", 520, "tile boundary", "one lane past the columns of a wave"),
                AxisValue("n1000", 1000, "odd", "a last chunk of 61 lanes"),
            ),
        ),
        Axis("padding", (AxisValue("dense", 0, "production"), AxisValue("strided", 8, "variation", "between rows"))),
        Axis("alias", (AxisValue("apart", False, "production"), AxisValue("inplace", True, "production"))),
        Axis(
            "values",
            tuple(
                AxisValue(kind.replace("_", ""), kind, "production" if kind == "normal" else "variation")
                for kind in ("normal", "wide", "special", "zero_rows", "large_mean")
            ),
        ),
    ),
    anchors=(Anchor({"m": "m5", "columns": "n520", "padding": "strided"}, "both tails, strided rows"),),
)
CONTRACT = (
    ContractRow("zero_rows", "M = 0 launches nothing", None),
    ContractRow("x_dtype", "x must be bf16", "ValueError", ("x", "bfloat16", "float32")),
    ContractRow("columns", "N must be a multiple of 8", "ValueError", ("x", "multiple of 8", "1004")),
    ContractRow("weight_shape", "weight must be [N]", "ValueError", ("weight", "[1000]", "[992]")),
    ContractRow("row_stride", "rows that are not 16 bytes apart", "ValueError", ("residual", "16-byte", "1009")),
    ContractRow("out_strided", "out must be contiguous", "ValueError", ("out", "contiguous", "1008")),
    ContractRow("out_is_x", "out over an input", "ValueError", ("out", "disjoint", "x")),
)
OPERATION = Operation(
    name="add_rms_norm",
    title="Fused add and RMSNorm",
    packages=("examples",),
    entry_points=(
        EntryPoint(
            name="add_rms_norm",
            function="add_rms_norm",
            grid=GRID,
            driver="examples.add_rms_norm.driver:Driver",
            contract=CONTRACT,
            variant=lambda params: f"n{params['columns']}",
            launches=lambda params: params["m"] > 0,
            limits={"vgpr_spills": 0, "sgpr_spills": 0, "scratch_bytes": 0},
        ),
    ),
)
