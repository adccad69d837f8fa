"""What the protocol stage must hold: scenarios, their broken variants, and enough adverse settings."""

from __future__ import annotations

from validation.operation import load_operation
from validation.protocol import Setting

#: Scenario to how many broken variants it must have, and under how many settings a default run must try it.
SCENARIOS: dict[str, tuple[int, int]] = {
    "hc_switch": (1, 5),
    "shapes": (2, 5),
    "wrap": (1, 5),
    "devices": (1, 5),
    "two_streams": (3, 6),
    "graph_replay": (1, 6),
    "cold_capture": (1, 5),
    "captures": (2, 6),
    "eviction": (2, 6),
    "pinned_bound": (1, 5),
    "publication": (9, 21),
    "aborted_launch": (1, 5),
    "lost_launch": (1, 6),
    "two_threads": (1, 6),
    "split_k_reduction": (2, 6),
    "path_combine": (0, 5),
    "path_skinny": (0, 6),
    "path_fused": (0, 6),
    "path_split_k": (1, 6),
    "path_resident": (1, 6),
    "path_decoupled": (1, 5),
    "path_k2": (0, 5),
}


def scenarios(arch: str) -> list[str]:
    """Scenarios that are missing, have lost variants, or are tried under friendly settings only."""
    present = {scenario.name: scenario for scenario in load_operation("hcgr").protocol}
    wrong = [f"no scenario {name}" for name in SCENARIOS if name not in present]
    for name, (variants, settings) in SCENARIOS.items():
        if name not in present:
            continue
        scenario = present[name]
        tried = list(dict.fromkeys(scenario.settings("default", 0)))
        if len(scenario.teeth) < variants:
            wrong.append(f"{name}: {len(scenario.teeth)} broken variants, must be {variants}")
        if len(tried) < settings:
            wrong.append(f"{name}: {len(tried)} settings, must be {settings}")
        wrong += [f"{name}: {problem}" for problem in _friendly(tried)]
    return wrong


def _friendly(settings: list[Setting]) -> list[str]:
    due = {
        "stale caches": any(s.memory == "weak" for s in settings),
        "late completion": any(s.completion == "latest" for s in settings),
        "early completion, under which races are looked for": any(s.completion == "earliest" for s in settings),
        "an order of its own": any(s.schedule.startswith("random:") for s in settings),
    }
    return [f"no setting with {what}" for what, found in due.items() if not found]
