"""The protocol scenarios of HCGR: what each proves, where its code is, and its teeth."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from validation.ops.protocol import teeth
from validation.protocol import Scenario, Setting, Tooth, standard_settings, stress_settings

_HERE = "validation.ops.protocol"


def one_stream_settings(level: str, seed: int) -> list[Setting]:
    """For launches of one stream, of one chunk each: ``alternating`` has nobody to take turns with, and is ``in-order``
    (tests/emulator/schedule compares the two access by access)."""
    return [setting for setting in standard_settings(level, seed) if setting.schedule != "alternating"]


def _scenario(
    name: str,
    where: str,
    proves: str,
    broken: Sequence[Tooth] = (),
    settings: Callable[[str, int], Sequence[Setting]] = standard_settings,
) -> Scenario:
    return Scenario(name, proves, f"{_HERE}.{where}", settings, tuple(broken))


SCENARIOS = (
    _scenario(
        "hc_switch",
        "keys:hc_switch",
        "HC=4, HC=8 and HC=4 again through one counter cache",
        teeth.HC_SWITCH,
        one_stream_settings,
    ),
    _scenario(
        "shapes",
        "keys:shapes",
        "n_pad and token groups change from call to call on one stream",
        teeth.SHAPES,
        one_stream_settings,
    ),
    _scenario("wrap", "keys:wrap", "slots count past 2^31 and 2^32", teeth.WRAP, one_stream_settings),
    _scenario(
        "devices", "keys:devices", "a counter set is memory of the launch's device", teeth.DEVICES, one_stream_settings
    ),
    _scenario(
        "two_streams",
        "streams:two_streams",
        "two streams at once, the first call on a side stream",
        teeth.STREAMS,
    ),
    _scenario(
        "graph_replay",
        "graphs:replays",
        "captured launches replay right in any order, after and beside other rounds, their eager sets evicted",
        teeth.GRAPHS,
    ),
    _scenario(
        "cold_capture", "graphs:cold_capture", "capture without a warm-up", teeth.COLD_CAPTURE, one_stream_settings
    ),
    _scenario("captures", "graphs:captures", "graphs of several streams, replayed at once", teeth.CAPTURES),
    _scenario("eviction", "cache:eviction", "sets are evicted while their launches are in flight", teeth.EVICTION),
    _scenario(
        "pinned_bound",
        "cache:pinned",
        "captured sets are bounded, and refused before a launch",
        teeth.PINNED,
        one_stream_settings,
    ),
    _scenario(
        "publication",
        "publication:publication",
        "partials are visible to the last arriver, on every schedule",
        teeth.PUBLICATION,
        stress_settings,
    ),
    _scenario(
        "aborted_launch",
        "failure:aborted",
        "a launch fails half way; the next call is right",
        teeth.ABORTED,
        one_stream_settings,
    ),
    _scenario("lost_launch", "failure:lost", "a launch fails unseen; its stream's sets are discarded", teeth.LOST),
    _scenario("two_threads", "threads:two_threads", "two host threads call at once", teeth.THREADS),
    _scenario(
        "split_k_reduction",
        "split_k:reduction",
        "split-K's partials are added up behind the kernel that wrote them, two streams at once",
        teeth.REDUCTION,
    ),
    _scenario(
        "path_combine", "paths:combine", "COMBINE is clean under every checker", teeth.COMBINE_PATH, one_stream_settings
    ),
    _scenario("path_skinny", "paths:skinny", "the skinny K1 is clean under every checker", teeth.SKINNY_PATH),
    _scenario(
        "path_fused", "paths:fused", "the fused K1 and its reduce are clean under every checker", teeth.FUSED_PATH
    ),
    _scenario(
        "path_split_k", "paths:split_k", "norm, split-K and reduce are clean under every checker", teeth.SPLIT_K_PATH
    ),
    _scenario(
        "path_resident",
        "paths:resident",
        "the resident K1 and its reduce are clean under every checker",
        teeth.RESIDENT_PATH,
    ),
    _scenario(
        "path_decoupled",
        "paths:decoupled",
        "the decoupled GEMM is clean under every checker",
        teeth.DECOUPLED_PATH,
        one_stream_settings,
    ),
    _scenario("path_k2", "paths:k2", "K2 is clean under every checker", teeth.K2_PATH, one_stream_settings),
)
