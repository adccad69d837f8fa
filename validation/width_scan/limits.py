"""How large a kernel parameter gets in production: the table that decides what can overflow.

A value's role follows from its name, by the first row whose pattern matches; what no row names gets a default by
how it enters the kernel. `limit` is the largest value a finding may assume, `typical` the one a witness starts
from, `low` the smallest (for divisions). Sources are given a row; the numbers are powers of two at or above them.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

INT32_MAX = 2**31 - 1
#: A buffer instruction adds an unsigned 32-bit byte offset, and a descriptor's num_records is 32 bits wide
#: (CDNA3 ISA, buffer resource descriptor).
BUFFER_SPAN = 2**32


@dataclass(frozen=True, slots=True)
class Role:
    """One row of the table. `pattern` matches a whole lower-case identifier, `cased` one as written."""

    name: str
    limit: int
    typical: int
    low: int
    pattern: str
    source: str
    cased: str = ""


_OUTER = r"(?:b|z|e|g|bs|batch|head|heads|expert|experts|chunk|split|group|page|block)"

#: Most specific first.
ROLES: tuple[Role, ...] = (
    Role("outer stride", 2**28, 2**24, 1, rf".*(?:stride|strides).*_?{_OUTER}(?:_in)?|{_OUTER}_strides?",
         "one batch, head or expert of 16,384 x 16,384 elements"),
    Role("kv head stride", 2**28, 2**24, 1, r"strides?_[kv][a-z]*_?h(?:_in)?",
         "a head-major cache: 1 M tokens x 256 (ROCm/aiter#4579)"),
    Role("stride", 2**18, 4096, 1, r".*strides?(?:_?\w*)?|.*_ld|ld[abcxy]",
         "one row of 262,144 elements: the largest vocabularies in use"),
    Role("elements", 2**33, 2**31, 1, r".*(?:n_?elem|numel|num_?elem|elements).*|xnumel|n",
         "8 G elements: 16 GiB of bf16, a twelfth of an MI355X's memory"),
    Role("sequence", 2**20, 32768, 1,
         r"(?:max_?|total_?)?(?:seq_?_?len|seqlen|sequence_?len|context_?len|ctx)(?:_?\w*)?|.*_seq_?len|n_?ctx\w*",
         "1 M tokens of context", cased=r"T|TQ|TK|TC|NT|SEQ\w*"),
    Role("tokens", 2**20, 131072, 1,
         r".*(?:tokens|n_?rows|num_?rows|total_?rows|rows).*|batch_?seq\w*|m|m_\w+",
         "1 M rows a call (linkedin/Liger-Kernel#804)"),
    Role("tile", 1024, 128, 16,
         r".*(?:block|tile|chunk|warp|wave|lanes|threads|vec|unroll|group_?size|group_m|stages).*|.*per_(?:program|wg|pid|cta)"
         r"|b[a-z]{1,2}|w?gm",
         "1,024 threads a workgroup; larger tiles do not fit registers and LDS"),
    Role("splits", 64, 8, 1, r".*(?:split|n_?xcds?|num_xcd).*|nk|nv|ksplit", "64 parts of a split K or split KV"),
    Role("experts", 512, 256, 1, r".*experts?.*|e", "512 routed experts"),
    Role("top-k", 16, 8, 1, r".*top_?k.*", "16 experts a token"),
    Role("heads", 128, 32, 1, r".*heads?|h|hq|hkv|hc|n_?head\w*|num_?head\w*|.*_hn?|g", "128 heads"),
    Role("head size", 576, 128, 16, r".*(?:head_?dim|dhead|d_?head|dmodel|head_?size|headdim|rope|kpe|ckv).*",
         "576: multi-head latent attention's compressed K"),
    Role("batch", 4096, 256, 1, r".*batch.*|b|z", "4,096 sequences a batch"),
    Role("vocabulary", 2**18, 128256, 1, r".*vocab.*", "262,144 tokens (the largest vocabularies in use)"),
    Role("width", 16384, 4096, 1,
         r".*(?:cols?|columns?|hidden|inter|dim|width|hs|rank|feature|size).*|n_?\w?|k_?\w?|d_?\w?|v|[nk]_in",
         "16,384: hidden sizes of the largest open models"),
)

DEFAULT_PARAMETER = Role("parameter", 65536, 4096, 1, "", "no name in the table: 65,536")
DEFAULT_CONSTANT = Role("constant", 1024, 64, 1, "", "no name in the table, a compile-time value: 1,024")
LOADED = Role("loaded index", 2**20, 131072, 1, "", "a loaded index names one of at most 1 M rows, slots or pages")
LOOP = Role("loop", 65536, 1024, 1, "", "65,536 turns of a loop whose length is not known")
#: Names that end a grid axis: x carries rows, y and z are 16 bits wide (HIP and CUDA grid limits).
PROGRAM_ID = {
    0: Role("program id", 2**20, 131072, 1, "", "one program a row, 1 M rows"),
    1: Role("program id", 65535, 256, 1, "", "grid axes y and z end at 65,535"),
}
THREAD = Role("thread id", 1024, 256, 1, "", "1,024 threads a workgroup")
POSITION = Role("position", 2**20, 131072, 1, "", "block id x tile: a position along one dimension of at most 1 M")
FLAT_TOKENS = Role("tokens", 2**20, 131072, 1, "", "batch x sequence length: at most 1 M tokens in all")

_LOWER = [(re.compile(role.pattern), re.compile(role.cased) if role.cased else None, role) for role in ROLES]


@functools.cache
def role_of(name: str, constant: bool = False) -> Role:
    """The row for an identifier (the last part of a dotted one); a default if no row names it."""
    tail = name.rpartition(".")[2].strip("_")
    tail = re.sub(r"^(?:i32|i64|arg|in|c)_|_(?:in|ptr|idx|i32|i64|const)$", "", tail)
    lower = tail.lower()
    for pattern, cased, role in _LOWER:
        if (cased and cased.fullmatch(tail)) or pattern.fullmatch(lower):
            return role
    return DEFAULT_CONSTANT if constant else DEFAULT_PARAMETER
