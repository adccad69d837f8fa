"""What the grids must hold: axis values, pairs of them that meet in the default cover, contract rows and paths.

The tables are what earlier defects of such kernels call for; removing a value from a grid leaves them unmet.
"""

from __future__ import annotations

from validation.mutation.controls.rows import ROWS
from validation.operation import EntryPoint, Operation, load_operation

#: Entry point to the labels that each of its axes must have.
AXES: dict[str, dict[str, str]] = {
    "combine": {
        "m": "m0 m1 m2 m3 m8 m13 m63 m64 m65 m512 m2431 m8191 m8192 m8193 m65536 m2g m4g m4ge m10m",
        "hc": "hc2 hc4 hc8",
        "hs": "hs2560 hs8192 hs40960",
        "injection_stride": "inj336 inj384 injdense injodd",
        "row_padding": "rowsdense rowspadded",
        "weight_dtype": "wbf16 wf32",
        "weight_shape": "wshared wfull",
        "values": "normal exact wide specials",
        "out": "outgiven outalloc",
    },
    "combine_and_mix": {
        "m": "m0 m1 m2 m3 m5 m8 m9 m15 m16 m17 m31 m32 m33 m63 m65 m127 m129 m512 m4096 m8192 m8193 m16399 "
        "m65536 m2g m4g",
        "shape": "p336 p384 s48 hc2 hc8 hc8r320 r128 hs8192 hs40960",
        "fold": "folded unfolded",
        "norm": "wbf16 wf32 wf32full",
        "values": "normal exact wide special zeros mean",
        "injection": "injview injdense injodd",
        "row_padding": "rowsdense rowspadded",
        "weight": "merged final unmerged",
        "plan": "heuristic shipped decoupled cus80",
        "layers": "one three",
    },
    "mix": {
        "m": "m0 m1 m3 m8 m9 m16 m17 m33 m65 m129 m512 m8193 m4g",
        "shape": "p336 s48 hc8",
        "fold": "folded unfolded",
        "norm": "wbf16 wf32full",
        "values": "normal exact wide special zeros mean",
        "row_padding": "rowsdense rowspadded",
        "weight": "merged final unmerged",
        "plan": "heuristic shipped decoupled cus80",
        "layers": "one three",
    },
    "k1": {
        "m": "m0 m1 m3 m4 m6 m7 m8 m16 m17 m32 m48 m64 m100 m128 m224 m512 m4096 m8193 m65536 m4g",
        "shape": "p336 p384 s48 hc2 hc8 r128 hs8192 n8",
        "fold": "folded unfolded",
        "request": "auto split1d2 split2 d3 d4h16 split8h16",
        "gemm_pad": "padnone pad16 pad128",
        "norm": "wbf16 wf32 wbf16full wf32full",
        "values": "normal exact wide special zeros mean",
        "injection": "injview injdense injodd",
        "row_padding": "rowsdense rowspadded",
        "buffers": "buffers nobuffer rrmsonly",
    },
    "k2": {
        "m": "m0 m16 m32 m48 m64 m112 m128 m224 m512 m8192 m65536 m4gw",
        "shape": "p336 p384 s48 hc2 hc8 hc8r320 r128 hs8192",
        "norm": "wbf16 wf32 wbf16full wf32full",
        "values": "normal exact wide special zeros mean",
        "block_m": "hauto h16 h32 h64 h128",
        "lora": "loraview loradense",
        "row_padding": "rowsdense rowspadded",
        "out": "outgiven outalloc",
    },
}

#: Labels that must meet in some case of the default cover, whatever the seed.
PAIRS: dict[str, tuple[tuple[str, ...], ...]] = {
    "combine": (("m4ge", "exact"), ("m8193", "exact"), ("m1", "outalloc"), ("m4g", "rowspadded"), ("m3", "injodd")),
    "combine_and_mix": (
        ("m1", "p336"), ("m8", "three"), ("m8193", "p336", "folded"), ("m65536", "shipped"), ("m17", "rowspadded"),
        ("m4g", "unfolded"), ("m9", "zeros"), ("m3", "exact"), ("m129", "injodd"), ("decoupled", "unfolded"),
        ("m257", "hc2", "unfolded"), ("m2047", "unfolded"), ("m2048", "final"),
    ),
    "mix": (("m1", "final"), ("m8193", "final"), ("m17", "three"), ("m4g", "folded"),
            ("rowsfar", "decoupled"), ("rowsfar", "unfolded"), ("m257", "unfolded", "final")),
    "k1": (("m100", "pad128"), ("m224", "auto"), ("n8", "m8"), ("d3", "unfolded"), ("split8h16", "unfolded"),
           ("m4g", "split2"), ("m17", "rowspadded"), ("rowspadded", "split1d2"), ("mpacked2g", "folded"),
           ("mpacked2g", "split2"), ("mpacked2g", "split1d2"), ("m3", "rowsfar"), ("rowsfar", "unfolded"),
           ("pad256", "hc2", "special"), ("pad256", "hs8192"), ("pad256", "r128"), ("m511", "unfolded"),
           ("mpacked2g", "auto", "unfolded")),
    "k2": (("m65536", "p336"), ("m48", "h16"), ("m16", "loraview"), ("hc8", "wf32full"), ("m4gw", "rowspadded"),
           ("mpacked2gw", "s48"), ("m32", "rowsfar")),
}  # fmt: skip


def _operation() -> Operation:
    return load_operation("hcgr")


def axes(arch: str) -> list[str]:
    """Axis values that are missing, or have lost their meaning (two labels of one value)."""
    wrong = []
    for name, due in AXES.items():
        entry = _operation().entry_point(name)
        present = {axis.name: {value.label: value for value in axis.values} for axis in entry.grid.axes}
        for axis, labels in due.items():
            missing = [label for label in labels.split() if label not in present.get(axis, {})]
            wrong += [f"{name}: axis {axis} has no value {label}" for label in missing]
            values = [repr(value.value) for value in present.get(axis, {}).values() if not callable(value.value)]
            if len(set(values)) != len(values):
                wrong.append(f"{name}: axis {axis} has a value under two labels")
        wrong += _sizes(entry)
    return wrong


def _sizes(entry: EntryPoint) -> list[str]:
    """``m<number>`` is that many rows; ``m2g`` and ``m4g`` pass what they say."""
    wrong = []
    for axis in entry.grid.axes:
        for value in axis.values:
            number = value.label[1:]
            if axis.name == "m" and number.isdecimal() and value.value != int(number):
                wrong.append(f"{entry.name}: {value.label} is {value.value} rows")
    for case in entry.grid.pairwise(0):
        m, width = case.params["m"], _width(case.params)
        least = {"m2g": 1 << 31, "m4g": 1 << 32, "m4gw": 1 << 32, "m4ge": 1 << 33}.get(case.name.partition(".")[0], 0)
        if m * width * 2 < least:
            wrong.append(f"{entry.name}: {case.name} is {m * width * 2} bytes, must pass {least}")
    return wrong


def _width(params: object) -> int:
    given = dict(params)  # type: ignore[call-overload]
    return given["shape"].width if "shape" in given else given["hc"] * given["hs"]


def pairs(arch: str) -> list[str]:
    """Labels that never meet in the default cover, for two seeds."""
    wrong = []
    for name, due in PAIRS.items():
        grid = _operation().entry_point(name).grid
        for seed in (0, 1):
            cases = [set(case.name.split(".")) for case in grid.pairwise(seed)]
            wrong += [
                f"{name}: no case of seed {seed} has {' and '.join(together)}"
                for together in due
                if not any(set(together) <= case for case in cases)
            ]
            missing = grid.uncovered(grid.pairwise(seed))
            if len(missing) > MOST_UNCOVERED[name]:
                wrong.append(f"{name}: {len(missing)} legal pairs meet in no case of seed {seed}, first {missing[0]}")
    return wrong


#: Legal pairs that no third axis lets meet.
MOST_UNCOVERED = {"combine": 0, "combine_and_mix": 0, "mix": 0, "k1": 0, "k2": 0}


def contract_rows(arch: str) -> list[str]:
    """Contract rows that are missing."""
    wrong = []
    for entry in _operation().entry_points:
        present = {row.name: row for row in entry.contract}
        missing = [name for name in ROWS[entry.name].split() if name not in present]
        wrong += [f"{entry.name}: no contract row {name}" for name in missing]
        wrong += [
            f"{entry.name}: contract row {row.name} asks for no word in the message"
            for row in entry.contract
            if row.error is not None and not row.mentions
        ]
    return wrong


#: Entry point to the paths that cases of its default cover are built for: a case fails that takes another.
PATHS = {
    "combine": "combine",
    "combine_and_mix": "skinny fused split_k resident decoupled k2",
    "mix": "skinny fused split_k resident decoupled k2",
    "k1": "skinny fused split_k resident decoupled",
    "k2": "k2",
}
#: Of the launching cases, at least so many must be built for each of these paths.
LEAST_BUILT_FOR = 5


def paths(arch: str) -> list[str]:
    """Paths that too few cases are built for, and cases that launch and are built for none."""
    wrong = []
    for name, due in PATHS.items():
        entry = _operation().entry_point(name)
        built = {case.name: entry.paths(case.params) for case in entry.grid.pairwise(0) if entry.launches(case.params)}
        wrong += [f"{name}: {case} is built for no path" for case, taken in built.items() if not taken]
        for path in due.split():
            count = sum(path in taken for taken in built.values())
            if count < LEAST_BUILT_FOR:
                wrong.append(f"{name}: {count} cases are built for {path}, must be {LEAST_BUILT_FOR}")
    return wrong
