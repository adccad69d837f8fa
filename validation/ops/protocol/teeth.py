"""Broken variants of HCGR, by scenario: one defect each, and the check that must catch it.

Left out, because they break nothing: the barrier before the arrival (at most 16 lanes publish, all of the first
wave), and a merely relaxed arrival (the explicit wait in front of it still orders the partials; that the arrival is
acq_rel is read from the IR elsewhere). ``captured`` in the key matters by what it selects, so its tooth selects wrong.
"""

from __future__ import annotations

from typing import Any

from validation.mutation.edit import Edit
from validation.protocol import AsmEdit, Setting, Tooth

COUNTERS, K1, DISPATCH = "hcgr/counters.py", "hcgr/k1.py", "hcgr/dispatch.py"
SKINNY, MEMORY, SPLIT_K = "hcgr/kernels/k1_skinny.py", "hcgr/kernels/memory.py", "hcgr/kernels/k1_split_k.py"
DECOUPLED, FUSED, K2 = "hcgr/kernels/k1_decoupled.py", "hcgr/kernels/k1_fused.py", "hcgr/kernels/k2_up_gate_mix.py"
COMBINE, RESIDENT = "hcgr/kernels/combine.py", "hcgr/kernels/k1_resident.py"
#: Modules that hold on to an edited one.
HOST_MODULES = ("hcgr.k1", "hcgr.direct")
HANDLES = "hcgr.dispatch:_handles"
LATE = tuple(Setting(name, completion="latest") for name in ("held:1", "held:2", "in-order"))


def _host(name: str, broken: str, check: str, *edits: tuple[str, str, str], **options: Any) -> Tooth:
    """Host code is changed."""
    made = tuple(Edit(*edit) for edit in edits)
    return Tooth(name, broken, check, made, options.pop("reload", HOST_MODULES), **options)


def _kernel(name: str, broken: str, check: str, *edits: tuple[str, str, str], **options: Any) -> Tooth:
    """A kernel is changed: its machine code must differ."""
    made = tuple(Edit(*edit) for edit in edits)
    reload = tuple(dict.fromkeys(f"hcgr.kernels.{e.file.rsplit('/', 1)[1][:-3]}" for e in made))
    reload += ("hcgr.kernels.k1_skinny",) if MEMORY in {e.file for e in made} else ()
    return Tooth(name, broken, check, made, reload, kernel=True, caches=(HANDLES,), **options)


def _key(field: str, check: str, kind: str = "int") -> Tooth:
    """Sets that differ in one field of the key only are one set."""
    edit = (
        COUNTERS,
        f"    {field}: {kind}\n",
        f"    {field}: {kind} = __import__('dataclasses').field(compare=False)\n",
    )
    return _host(f"no_{field}_in_key", f"{field} is not part of the counters' key", check, edit)


_WAIT = "        rocdl.s_waitcnt(vmcnt=0)\n        gpu.barrier()\n        if lane == 0:\n"
_ARRIVE = "            fx.generic_store(ticket, arrive(counters + meeting * SLOT_ELEMENTS))\n"

HC_SWITCH = (_key("hc", "value"),)
SHAPES = (
    _host(
        "no_n_pad_in_key",
        "n_pad is not part of the counters' key",
        "memcheck",
        (COUNTERS, "    n_pad: int\n    token_groups: int\n    hc: int\n    stream: int\n",
         "    n_pad: int = __import__('dataclasses').field(compare=False)\n    token_groups: int\n"
         "    hc: int\n    stream: int\n"),
    ),
    _host(
        "no_token_groups_in_key",
        "token groups are not part of the counters' key",
        "memcheck",
        (COUNTERS, "    token_groups: int\n    hc: int\n    stream: int\n",
         "    token_groups: int = __import__('dataclasses').field(compare=False)\n    hc: int\n    stream: int\n"),
    ),
)  # fmt: skip
DEVICES = (_key("device", "contract", "torch.device"),)
WRAP = (
    _kernel(
        "signed_remainder",
        "the last arrival is told by a signed remainder, which is negative from 2^31 arrivals on",
        "value",
        (SKINNY, "(fx.generic_load(ticket) & (hc - 1)) == hc - 1\n", "fx.generic_load(ticket) % hc == hc - 1\n"),
    ),
)
STREAMS = (
    _key("stream", "value"),
    _host(
        "no_zero_fill",
        "a new set is not filled with zeros",
        "value",
        (COUNTERS, "    return torch.zeros(elements,", "    return torch.empty(elements,"),
    ),
    _host(
        "default_stream_fill",
        "a new set is filled on the default stream, which the launch stream does not wait for",
        "racecheck",
        (COUNTERS, "    return torch.zeros(elements,",
         "    return __import__('contextvars').Context().run(torch.zeros, elements,"),
    ),
)  # fmt: skip
GRAPHS = (
    _host(
        "captured_in_eager_set",
        "captured launches use the stream's eager set, which eager launches share and the cache may drop",
        "value",
        (COUNTERS, "handle, is_capturing(device, current))", "handle, False)"),
    ),
)
COLD_CAPTURE = (
    _host(
        "fill_only_in_first_graph",
        "without a warm-up the zero-fill is captured by the first graph alone",
        "value",
        (COUNTERS, "return _Pinned(_zeros(key), refill=True)", "return _Pinned(_zeros(key), refill=False)"),
    ),
)
CAPTURES = (
    _host(
        "spare_given_twice",
        "a spare stays a spare when a captured set is made of it",
        "value",
        (COUNTERS, "        del self._spares[shape]\n", ""),
    ),
    _host(
        "spare_before_its_fill",
        "a spare is captured while its zero-fill may still be under way on another stream",
        "racecheck",
        (COUNTERS, "if spare is None or spare.filled is not None:", "if spare is None:"),
    ),
)
EVICTION = (
    _host(
        "evicted_set_reused",
        "an evicted set is cleared and handed to another stream while its last launch may still run",
        "racecheck",
        (COUNTERS, "counters = self._eager[key] = _zeros(key)\n",
         "counters = self._eager[key] = (\n"
         "                    self._eager.popitem()[1].zero_() if self._eager else _zeros(key)\n"
         "                )\n"),
    ),
    _host(
        "unbounded_cache",
        "eager sets are never evicted",
        "contract",
        (COUNTERS, "while len(self._eager) > self._max_sets:", "while len(self._eager) > 1 << 30:"),
    ),
)  # fmt: skip
PINNED = (
    _host(
        "unbounded_pinned_sets",
        "captured sets are not bounded",
        "contract",
        (COUNTERS, "if len(self._pinned) >= self._max_pinned:", "if len(self._pinned) >= 1 << 30:"),
    ),
)
PUBLICATION = (
    _kernel(
        "plain_stores",
        "partials are stored plainly, and stay in their XCD's L2",
        "value",
        (MEMORY,
         "    words = value.bitcast(fx.Int32).ir_value()\n"
         '    llvm.call_intrinsic(None, "llvm.amdgcn.av.store.b128", [ptr.llvm_ptr, words, _agent_scope()], [], [])\n',
         "    fx.generic_store(ptr, value)\n"),
    ),
    _kernel(
        "cached_loads",
        "partials are read through caches that nothing has invalidated",
        "racecheck",
        (MEMORY, "    if not av:\n        return fx.generic_load(ptr, count=4, volatile=True)\n",
         "    if av:\n        return fx.generic_load(ptr, count=4)\n"),
    ),
    _kernel(
        "relaxed_arrival",
        "the arrival is relaxed, and nothing else waits for the partials",
        "value",
        (MEMORY, "llvm.AtomicOrdering.acq_rel", "llvm.AtomicOrdering.monotonic"),
        (SKINNY, _WAIT, _WAIT.replace("        rocdl.s_waitcnt(vmcnt=0)\n", "")),
        first=LATE,
    ),
    Tooth(
        "no_wait_before_arrival",
        "s_waitcnt vmcnt(0) between the partials and the arrival is missing from the machine code",
        "value",
        asm=(AsmEdit("hcgr_k1_skinny_", "s_waitcnt vmcnt(0)", "global_store_dword", "global_atomic_add"),),
        kernel=True,
        first=LATE,
    ),
    _kernel(
        "all_lanes_arrive",
        "every lane of the first wave arrives, not one",
        "value",
        (SKINNY, "        if lane == 0:\n" + _ARRIVE, "        if lane < 64:\n" + _ARRIVE),
    ),
    _kernel(
        "no_barrier_after_sums",
        "no barrier between the waves' sums in LDS and their use",
        "racecheck",
        (SKINNY, "                fx.generic_store(mine + q * QUAD, total)\n        gpu.barrier()\n",
         "                fx.generic_store(mine + q * QUAD, total)\n"),
    ),
    _kernel(
        "no_barrier_after_arrival",
        "no barrier between the ticket in LDS and its use",
        "racecheck",
        (SKINNY, _ARRIVE + "        gpu.barrier()\n", _ARRIVE),
    ),
    _kernel(
        "shared_slot",
        "the column tiles of a token group share one counter",
        "value",
        (SKINNY, _ARRIVE, _ARRIVE.replace("meeting *", "token_group *")),
    ),
    _kernel(
        "everybody_reduces",
        "every arriver reduces, not the last one",
        "racecheck",
        (SKINNY, "& (hc - 1)) == hc - 1\n", "& (hc - 1)) >= 0\n"),
    ),
)  # fmt: skip
ABORTED = (
    _host(
        "set_survives_failure",
        "a set serves on after its launch has failed",
        "value",
        (COUNTERS, "                self._drop(key, counters)\n", "                pass\n"),
    ),
)
LOST = (
    _host(
        "discard_of_all_streams",
        "discard forgets no set of the broken stream, but those of the others",
        "value",
        (COUNTERS, "(key.device, key.stream) == (device, handle)]", "key.stream != handle]"),
    ),
)
THREADS = (
    _host(
        "one_stream_for_all_threads",
        "the current stream is the process', not the thread's",
        "racecheck",
        (DISPATCH, '_cpu_stream: ContextVar[Any] = ContextVar("hcgr_cpu_stream", default=None)\n',
         "class _Shared:\n    value: Any = None\n\n    def get(self) -> Any:\n        return self.value\n\n"
         "    def set(self, value: Any) -> Any:\n        old, self.value = self.value, value\n        return old\n\n"
         "    def reset(self, old: Any) -> None:\n        self.value = old\n\n\n_cpu_stream: Any = _Shared()\n"),
        reload=("hcgr.counters", *HOST_MODULES),
    ),
)  # fmt: skip
REDUCTION = (
    _host(
        "reduce_on_default_stream",
        "the reduce kernel runs on the default stream",
        "racecheck",
        (K1, '        dispatch.launch("hcgr.kernels.k1_reduce",',
         '        __import__("contextvars").Context().run(dispatch.launch, "hcgr.kernels.k1_reduce",'),
        reload=("hcgr.direct",),
    ),
    _host(
        "shared_workspace",
        "calls share one workspace, whatever their streams",
        "racecheck",
        (K1, "        name: torch.empty(shape, dtype=dtype, device=device)\n",
         "        name: _WORK.setdefault((name, shape), torch.empty(shape, dtype=dtype, device=device))\n"),
        (K1, "def _run_tiled(", "_WORK: dict = {}\n\n\ndef _run_tiled("),
        reload=("hcgr.direct",),
    ),
)  # fmt: skip
COMBINE_PATH = (
    _kernel(
        "no_row_guard",
        "the last workgroup handles rows that do not exist",
        "memcheck",
        (COMBINE, "            if row < tokens:\n", "            if tokens > 0:\n"),
    ),
)
SKINNY_PATH = (
    _kernel(
        "volatile_form_writes_plainly",
        "the form without av stores partials plainly, and they stay in their XCD's L2",
        "racecheck",
        (MEMORY, "    if not av:\n        fx.generic_store(ptr, value, volatile=True)\n",
         "    if not av:\n        fx.generic_store(ptr, value)\n"),
    ),
)  # fmt: skip
FUSED_PATH = (
    _kernel(
        "no_barrier_before_refill",
        "a weight stage in LDS is refilled while other waves may still read it",
        "racecheck",
        (FUSED, "                gpu.barrier()\n                if const_expr(not dma):\n"
         "                    staged = load_weights(k + STEP)\n                x = []\n",
         "                if const_expr(not dma):\n"
         "                    staged = load_weights(k + STEP)\n                x = []\n"),
    ),
)  # fmt: skip
K2_PATH = (
    _kernel(
        "no_barrier_after_h",
        "waves read h from LDS before all of it is there",
        "racecheck",
        (K2, "                    write8(h + own[i] * FRAGMENT, lane * LANE_COLUMNS, values)\n        gpu.barrier()\n",
         "                    write8(h + own[i] * FRAGMENT, lane * LANE_COLUMNS, values)\n"),
    ),
)  # fmt: skip
SPLIT_K_PATH = (
    _kernel(
        "no_barrier_in_loop",
        "a weight stage in LDS is refilled while other waves may still read it",
        "racecheck",
        (SPLIT_K,
         "                    keep_weights(staged, 1)\n                gpu.barrier()\n",
         "                    keep_weights(staged, 1)\n"),
    ),
)  # fmt: skip
RESIDENT_PATH = (
    _kernel(
        "no_barrier_before_stage",
        "a slot is stored to LDS while other waves may still multiply the one before, or read the sums of squares",
        "racecheck",
        (RESIDENT,
         "            for p in range_constexpr(slots):\n                gpu.barrier()\n",
         "            for p in range_constexpr(slots):\n"),
    ),
)  # fmt: skip
DECOUPLED_PATH = (
    _kernel(
        "wait_too_loose",
        "the loop waits for one stage less than it is about to use",
        "waits",
        (DECOUPLED, "rocdl.s_waitcnt(vmcnt=plan.pending_loads)",
         "rocdl.s_waitcnt(vmcnt=plan.pending_loads + plan.loads_per_stage)"),
        first=LATE,
    ),
)  # fmt: skip
