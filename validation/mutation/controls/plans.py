"""Plans: every choice for a sweep of calls, and every entry of the tuned table, fits the hardware.

The hardware's numbers are written here again, apart from :mod:`hcgr.arch`, which is under test.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

#: arch -> LDS bytes, largest vmcnt, bytes a lane of a direct load to LDS, compute units of the full part.
LIMITS: dict[str, tuple[int, int, tuple[int, ...], int]] = {
    "gfx942": (65536, 63, (4,), 304),
    "gfx950": (163840, 63, (4, 16), 256),
}
#: HIP refuses a grid of 2^32 work-items.
MOST_ITEMS = 1 << 32
#: Loads of a plan that a wait may leave pending must stay below vmcnt's reach.
TOKENS = (1, 3, 8, 9, 17, 64, 100, 224, 512, 1024, 2048, 4096, 8192, 65536)
#: hc, hs, n_pad, live.
SHAPES = ((4, 2560, 336, 324), (4, 2560, 384, 324), (2, 512, 48, 26), (8, 1024, 336, 328), (4, 8192, 16, 12))
#: Sections and token counts that the shipped table must have.
SECTIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "gfx942": {"k1": (2048, 4096, 8192)},
    "gfx950": {"k1": (64, 65536), "k1_n336": (64, 65536), "up_gate_mix": (64, 8192), "up_gate_mix_n336": (64,)},
}


def plans(arch: str) -> list[str]:
    """What is wrong with the figures that plans rely on, and with plans of a sweep over tokens, shapes and CUs."""
    from hcgr.plan import choose

    wrong = [*_figures(arch), *_refusals(arch), *_last_rows(arch)]
    for hc, hs, n_pad, live in SHAPES:
        for tokens in TOKENS:
            for folded in (True, False):
                for cus in (LIMITS[arch][3], 80):
                    where = f"{tokens} rows, HC={hc} HS={hs} n_pad={n_pad}, folded={folded}, {cus} CUs"
                    plan = choose.k1(tokens, hc, hs, n_pad, live, arch, cus, folded, True, False, False)
                    wrong += [f"K1 of {where}: {problem}" for problem in _problems(plan, tokens, arch)]
        for tokens in TOKENS:
            rank = live - hc
            second = choose.k2(tokens, hc, hs, rank, arch, LIMITS[arch][3], n_pad, False, False)
            wrong += [f"K2 of {tokens} rows, HC={hc} HS={hs}: {problem}" for problem in _problems(second, tokens, arch)]
    return wrong


#: What the planner must refuse, and the argument that its refusal must name: rows beyond any grid, a pipeline deeper
#: than LDS, a tile whose sums do not fit beside r = 512. (No tensor of so many rows fits a memory: no contract row.)
_ENDLESS = 1 << 40


def _refusals(arch: str) -> list[str]:
    from hcgr.plan import choose

    cus = LIMITS[arch][3]
    deep, tall = choose.Request(split_k=1, stages=1000), 128
    due: dict[str, tuple[str, Callable[[], Any]]] = {
        "K1 of endless rows": ("residual", lambda: choose.k1(_ENDLESS, 4, 512, 48, 36, arch, cus, True)),
        "K1 1000 stages deep": ("stages", lambda: choose.k1(32, 4, 512, 48, 36, arch, cus, True, request=deep)),
        "K2 of endless rows": ("residual", lambda: choose.k2(_ENDLESS, 4, 512, 32, arch, cus, 48)),
        "K2 of 128 rows a tile": ("block_m", lambda: choose.k2(128, 4, 512, 512, arch, cus, 512, block_m=tall)),
    }
    wrong = []
    for name, (argument, plan) in due.items():
        try:
            wrong.append(f"{name}: planned as {plan()}")
        except choose.NoPlanError as error:
            if error.problem.argument != argument:
                wrong.append(f"{name}: blames {error.problem.argument}, must blame {argument}")
        except ValueError as error:
            wrong.append(f"{name}: no refusal by argument: {error}")
    return wrong


def _last_rows(arch: str) -> list[str]:
    """Whether the planner takes as many rows as one grid covers, and not one more: no other case has so many."""
    from hcgr.plan import choose, k1_limits
    from hcgr.plan.k1 import K1DecoupledPlan, K1SplitKPlan

    wrong = []
    for name, folded, request in (
        ("fused K1", True, choose.Request(split_k=2)),
        ("split-K K1", False, choose.Request(split_k=2)),
        ("resident K1", False, choose.Request(use_tuned=False)),
        ("decoupled K1", False, choose.Request(split_k=1, stages=3)),
    ):

        def planned(rows: int, folded: bool = folded, request: Any = request) -> Any:
            try:
                return choose.k1(rows, 4, 512, 48, 36, arch, LIMITS[arch][3], folded, request=request)
            except choose.NoPlanError as error:
                if error.problem.argument != "residual":
                    raise
                return None

        most, refused = 1, _ENDLESS
        try:
            while refused - most > 1:
                middle = (most + refused) // 2
                most, refused = (middle, refused) if planned(middle) is not None else (most, middle)
        except ValueError as error:
            wrong.append(f"{name} of some rows from {most} to {refused} is neither planned nor refused: {error}")
            continue
        plan = planned(most)
        lanes = [(getattr(plan, "tile", plan).lanes, plan.workgroups)]
        if isinstance(plan, K1SplitKPlan | K1DecoupledPlan):
            lanes.append((k1_limits.norm_plan(plan, True).lanes, int))  # one workgroup a row
        items = [max(wide * workgroups(rows) for wide, workgroups in lanes) for rows in (most, refused)]
        if items[0] >= MOST_ITEMS:
            wrong.append(f"{name} takes {most} rows: {items[0]} lanes are more than HIP launches")
        if items[1] < MOST_ITEMS:
            wrong.append(f"{name} refuses {refused} rows: {items[1]} lanes are no more than HIP launches")
    return wrong


def _figures(arch: str) -> list[str]:
    from hcgr import arch as arch_table

    entry = arch_table.get(arch)
    lds, vmcnt, widths, cus = LIMITS[arch]
    wrong = [
        f"{arch}: {name} is {given}, must be {due}"
        for name, given, due in (
            ("lds_bytes", entry.lds_bytes, lds),
            ("max_vmcnt", entry.max_vmcnt, vmcnt),
            ("cus", entry.cus, cus),
        )
        if given != due
    ]
    # CDNA4 moves 12 bytes too, which no kernel asks for
    extra = set(entry.lds_dma_bytes) - {*widths, 12}
    return [*wrong, *(f"{arch}: {width} bytes a lane to LDS, {arch} moves {widths}" for width in sorted(extra))]


def _problems(plan: Any, tokens: int, arch: str) -> list[str]:
    lds, vmcnt, widths, _ = LIMITS[arch]
    tile, wrong = getattr(plan, "tile", plan), []
    if tile.lds_bytes > lds:
        wrong.append(f"{tile.lds_bytes} bytes of LDS, there are {lds}")
    if getattr(plan, "dma_bytes", 0) not in (0, *widths):
        wrong.append(f"{plan.dma_bytes} bytes a lane to LDS, {arch} moves {widths}")
    if getattr(plan, "pending_loads", 0) > vmcnt:
        wrong.append(f"{plan.pending_loads} loads pending, vmcnt counts to {vmcnt}")
    if plan.workgroups(tokens) * tile.lanes >= MOST_ITEMS:
        wrong.append(f"{plan.workgroups(tokens)} workgroups of {tile.lanes} lanes are more than HIP launches")
    if tile.lanes > 1024 or tile.lanes % 64:
        wrong.append(f"{tile.lanes} lanes")
    return wrong


def table_entries(arch: str) -> list[str]:
    """What is wrong with the shipped table: shape, coverage, evidence, and entries that no call can use."""
    from hcgr.plan import choose
    from hcgr.tuned import table

    try:
        sections = table.parse(json.loads(table.PATH.read_text(encoding="utf-8")))[arch]
    except (table.TunedTableError, KeyError) as error:
        return [f"{arch}: {error}"]
    wrong = []
    for name, due in SECTIONS[arch].items():
        missing = [tokens for tokens in due if tokens not in sections.get(name, {})]
        wrong += [f"{arch}/{name}: no entry for {tokens} rows" for tokens in missing]
    for name, entries in sections.items():
        for tokens, entry in entries.items():
            where = f"{arch}/{name}/{tokens}"
            if entry["evidence"] != "modelled":
                wrong.append(f"{where}: evidence is {entry['evidence']}, nothing has been measured")
            if entry["cus"] != LIMITS[arch][3] or entry["hidden"] != 10240 or entry["hc"] != 4:
                wrong.append(f"{where}: made for {entry['cus']} CUs, HC={entry['hc']}, hidden={entry['hidden']}")
            if entry["method"] != "heuristic" and name.startswith("k1"):
                live = 324
                chosen = choose.k1(
                    tokens, 4, 2560, entry["n_pad"], live, arch, entry["cus"], True, True, False, False
                )  # fmt: skip
                used = {"split_k": ("splits", "split_k"), "decoupled": ("stages", "stages")}[entry["method"]]
                if getattr(chosen, used[0], None) != entry[used[1]]:
                    wrong.append(f"{where}: {entry['method']} entry is discarded for {type(chosen).__name__}")
    return wrong
