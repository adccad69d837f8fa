"""Split-K: float32 partials in a workspace of each call, added up by a kernel behind the one that writes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hcgr import arch as arch_table
from hcgr.plan.k1 import PAIR, K1FusedPlan, K1SplitKPlan
from validation.emulator.streams import Stream
from validation.ops.protocol.host import Call, Shape, exact_case, hosting, run_plan
from validation.protocol import Trial

#: Three live column tiles for two waves, the last one cut, and a dead one behind them.
SHAPE = Shape(hc=2, n_pad=64, live=34)
TOKENS = 16
#: As little as one workgroup still has two waves for, which is enough where streams and workspaces matter.
TWO_TILES = replace(SHAPE, n_pad=32, live=18)
#: So many parts of K that each is one turn of the loops: nothing is prefetched then, and waits count accordingly.
ONE_TURN = SHAPE.hc * SHAPE.hs // PAIR


def fused_plan(arch: str, splits: int) -> Any:
    """A fused K1 of one row tile and two waves; more splits than streams leave raw partials."""
    entry = arch_table.get(arch)
    return K1FusedPlan(
        SHAPE.hc, SHAPE.hs, SHAPE.n_pad, SHAPE.live, splits=splits, waves=2, mfma_k=entry.mfma_k, dma_bytes=_dma(entry)
    )


def split_k_plan(arch: str, splits: int = 2, shape: Shape = SHAPE) -> Any:
    """Split-K for an unfolded weight, two waves."""
    entry = arch_table.get(arch)
    return K1SplitKPlan(
        shape.hc, shape.hs, shape.n_pad, shape.live, splits=splits, waves=2, mfma_k=entry.mfma_k, dma_bytes=_dma(entry)
    )


def _dma(entry: arch_table.Arch) -> int:
    """Bytes a lane of weight loads to LDS; 4 are too few for these kernels, which then go through registers."""
    return 16 if 16 in entry.lds_dma_bytes else 0


def reduction(trial: Trial) -> None:
    """Two streams at once, each with its own partials; their memory is handed out again while others still run."""
    with hosting(trial) as host:
        streams = [Stream(name=f"stream {i}") for i in range(2)]
        plan = split_k_plan(host.arch, shape=TWO_TILES)
        for turn in range(2):
            for number, stream in enumerate(streams):
                case = exact_case(TWO_TILES, TOKENS, 10 * number + turn, False)
                with host.current(stream):
                    made = run_plan(case, plan, host.arch)
                host.expect(Call(f"stream {number}, turn {turn}", case, *made))
