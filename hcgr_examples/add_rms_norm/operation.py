"""What the validator is told: the space, the contract, where the driver is. Imports neither torch nor the kernel."""

from validation.grid import Anchor, Between, Grid, Rule, axis
from validation.operation import ContractRow, EntryPoint, Operation

GRID = Grid(
    axes=(
        axis(
            "m",
            Between("m", 0, 256),
            m1=(1, "production", "decode"),
            m0=(0, "zero", "no launch"),
            m3=(3, "tiny", "one row short of a workgroup"),
            m5=(5, "tile boundary", "one row past a workgroup"),
            m256=(256, "production", "prefill"),
            m2g=(lambda p: 2**30 // p["columns"] + 3, "beyond 2^31", "bytes of x"),
            m4g=(lambda p: 2**31 // p["columns"] + 3, "beyond 2^32", "bytes of x; its elements pass 2^31"),
        ),
        axis(
            "columns",
            n4096=(4096, "production"),
            n8=(8, "tiny", "one lane"),
            n520=(520, "tile boundary", "one lane past the columns of a wave"),
            n1000=(1000, "odd", "lanes past the end"),
        ),
        axis("padding", dense=(0, "production"), strided=(8, "variation", "rows of x and residual")),
        axis(
            "values", normal=("normal", "production"), wide=("wide",), special=("special",), zeros=("zero_rows", "zero")
        ),
    ),
    rules=(Rule(("m", "columns"), lambda m, n: n > 8 or not callable(m), "a launch has fewer than 2^32 lanes"),),
    anchors=(Anchor({"m": "m5", "columns": "n520", "padding": "strided"}, "both tails at once"),),
)
CONTRACT = (
    ContractRow("zero_rows", "M = 0 launches nothing", None),
    ContractRow("dtype", "x must be bf16", "ValueError", ("x", "bfloat16", "float32")),
    ContractRow("columns", "N must be a multiple of 8", "ValueError", ("x", "multiple of 8", "1004")),
    ContractRow("weight", "weight must be [N]", "ValueError", ("weight", "[1000]", "[992]")),
    ContractRow("row_stride", "rows that are not 16 bytes apart", "ValueError", ("residual", "16 bytes", "1009")),
    ContractRow("overlap", "x over residual", "ValueError", ("x", "residual", "disjoint")),
)
ENTRY = EntryPoint(
    name="add_rms_norm",
    function="add_rms_norm",
    grid=GRID,
    driver="hcgr_examples.add_rms_norm.driver:Driver",
    contract=CONTRACT,
    variant=lambda params: f"n{params['columns']}",
    invalid={"columns": 1004},
    shapes=lambda p: {"x": (p["m"], p["columns"]), "residual": (p["m"], p["columns"]), "weight": (p["columns"],)},
)
OPERATION = Operation("add_rms_norm", "Fused add and RMSNorm", ("hcgr_examples",), (ENTRY,))
