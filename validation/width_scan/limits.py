"""How large a kernel parameter gets in production: the table that decides what can overflow.

A value's role follows from its name, by the first row whose pattern matches; what no row names gets a default by
how it enters the kernel. `limit` is the largest value a finding may assume, `typical` the one a witness starts
from, `low` the smallest (for divisions). Sources are given a row; the numbers are powers of two at or above them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
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


_OUTER = r"(?:b|z|e|g|batch|head|heads|expert|experts|chunk|split|group|page|block)"

#: Most specific first.
ROLES: tuple[Role, ...] = (
    Role(
        "summary stride",
        1024,
        128,
        1,
        r".*(?:scale|lse|loss|rstd|mean|exp_?sum|max_?logit).*stride.*|.*stride.*(?:scale|lse|loss|rstd|mean|exp_?sum|max_?logit).*"
        r"|strides?_\w*mx_\w+|.*(?:cos|sin)_strides?.*|strides?_(?:cos|sin).*",
        "one value for 16 or more elements of a row of 16,384; cosines and sines of half a head",
    ),
    Role(
        "outer stride",
        2**28,
        2**24,
        1,
        rf".*(?:stride|strides).*_?{_OUTER}(?:_in)?|{_OUTER}_strides?",
        "one batch, head or expert of 16,384 x 16,384 elements",
    ),
    Role(
        "kv head stride",
        2**28,
        2**24,
        1,
        r"strides?_[kv][a-z]*_?h(?:_in)?",
        "a head-major cache: 1 M tokens x 256 (ROCm/aiter#4579)",
    ),
    Role(
        "inner stride",
        2**16,
        4096,
        1,
        r"(?:[a-z]{1,3}_)?strides?_(?:\w+_?)?(?:[knd]|hdim|dim|dstate|csize|col)(?:_in)?|\w+_h?dim_stride",
        "a row of 65,536: the k, n or d of a weight or of a key and value",
    ),
    Role(
        "stride",
        2**18,
        4096,
        1,
        r".*strides?(?:_?\w*)?|.*_ld|ld[abcxy]",
        "one row of 262,144 elements: the largest vocabularies in use",
    ),
    Role(
        "elements",
        2**33,
        2**31,
        1,
        r".*(?:n_?elem|numel|num_?elem|elements).*|xnumel",
        "8 G elements: 16 GiB of bf16, a twelfth of an MI355X's memory",
        cased="n",
    ),
    Role(
        "sequence",
        2**20,
        32768,
        1,
        r"(?:max_?|total_?)?(?:seq_?_?len|seqlen|sequence_?len|context_?len|ctx)(?:_?\w*)?|.*_seq_?len|n_?ctx\w*",
        "1 M tokens of context",
        cased=r"T|TQ|TK|TC|NT|SEQ\w*",
    ),
    Role(
        "heads of a group",
        64,
        8,
        1,
        r"(?:.*_)?(?:query|q|kv|gqa|heads?)_(?:.*_)?(?:gro?u?p)s?(?:_(?:size|sz|num))?(?:_pow2|_p2)?|.*q_per_kv.*|kv_groups",
        "64 query heads share a key and value",
    ),
    Role(
        "filter",
        64,
        4,
        1,
        r"(?:kernel|conv|filter)_?(?:width|size|w|h|d)|k[hwd]?_?size|k[hw]|(?:np2_?)?state_?len",
        "64 taps of a convolution along one dimension",
    ),
    Role("dimensions", 8, 4, 1, r"(?:n|num)_?dims?", "a tensor has at most 8 dimensions here"),
    Role("passes", 64, 8, 1, r"(?:n|num)?_?passes", "64 passes of a radix sort"),
    Role("multiplier", 64, 1, 1, r".*(?:multiplier|factor)", "64: heads, or parts, that a position counts for"),
    Role(
        "speculated tokens",
        8,
        2,
        1,
        r"next_n|(?:num|n)_?(?:spec|draft)\w*|.*(?:speculat|draft)\w*",
        "8 tokens a sequence and step, where some are speculated",
    ),
    Role(
        "tile",
        1024,
        128,
        16,
        r".*(?:block|tile|chunk|warp|wave|lanes|threads|vec|unroll|group_?size|group_m|stages).*|.*per_(?:program|wg|pid|cta)"
        r"|b[a-z]{1,2}|w?gm",
        "1,024 threads a workgroup; larger tiles do not fit registers and LDS",
    ),
    Role(
        "tokens",
        2**20,
        131072,
        1,
        r".*(?:tokens|n_?rows|num_?rows|total_?rows|rows).*|batch_?seq\w*|m|m_\w+",
        "1 M rows a call (linkedin/Liger-Kernel#804)",
    ),
    Role(
        "devices",
        1024,
        8,
        1,
        r"(?:src|dst|local|global|world|[tcdep]p)_?(?:rank|size)|n_?ranks|num_ranks",
        "1,024 GPUs",
    ),
    Role("splits", 64, 8, 1, r".*(?:split|n_?xcds?|num_xcd).*|nk|nv|ksplit", "64 parts of a split K or split KV"),
    Role(
        "element size",
        8,
        2,
        1,
        r".*(?:elem_?bytes|elem_?size|itemsize|element_?size|elem_?pack|vec_?pack|pack).*",
        "8 bytes an element",
    ),
    Role("experts", 384, 256, 1, r".*experts?.*|e", "384 routed experts (Kimi K2)"),
    Role("top-k", 16, 8, 1, r".*top_?k.*", "16 experts a token"),
    Role("heads", 128, 32, 1, r".*heads?|h|hq|hk|hv|hkv|hc|n_?head\w*|num_?head\w*|.*_hn?|g", "128 heads"),
    Role(
        "head size",
        576,
        128,
        16,
        r"(?:.*_)?kv_?c_?dim|.*(?:head_?dim|dhead|d_?head|dmodel|head_?size|headdim|rope|kpe|ckv|dstate).*",
        "576: multi-head latent attention's compressed K",
    ),
    Role("batch", 4096, 256, 1, r".*batch.*|b|z", "4,096 sequences a batch"),
    Role("vocabulary", 2**18, 128256, 1, r".*vocab.*", "262,144 tokens (the largest vocabularies in use)"),
    Role("rank", 2048, 512, 1, r".*(?:lora|rank).*", "2,048: the compressed queries of latent attention"),
    Role(
        "width",
        16384,
        4096,
        1,
        r".*(?:cols?|columns?|hidden|inter|dim|width|hs|feature|size).*|n_?\w?|k_?\w?|d_?\w?|v|[nk]_in",
        "16,384: hidden sizes of the largest open models",
    ),
)

DEFAULT_PARAMETER = Role("parameter", 65536, 4096, 1, "", "no name in the table: 65,536")
DEFAULT_CONSTANT = Role("constant", 1024, 64, 1, "", "no name in the table, a compile-time value: 1,024")
LOADED = Role("loaded index", 2**20, 131072, 1, "", "a loaded index names one of at most 1 M rows, slots or pages")
LOOP = Role("loop", 65536, 1024, 1, "", "65,536 turns of a loop whose length is not known")
#: Grid axis x carries rows; y and z are 16 bits wide (grid limits of HIP and CUDA), and hold fewer in practice.
PROGRAM_ID = {
    0: Role("program id", 2**20, 131072, 1, "", "one program a row, 1 M rows"),
    1: Role("program id", 4096, 256, 1, "", "grid axes y and z carry column blocks, or heads x batch, up to 4,096"),
}
THREAD = Role("thread id", 1024, 256, 1, "", "1,024 threads a workgroup")
POSITION = Role("position", 2**20, 131072, 1, "", "block id x tile: a position along one dimension of at most 1 M")
#: Its parts together are one dimension of a matrix.
SPLIT_POSITION = Role("position", 16384, 4096, 1, "", "part x tile: a position along the split dimension of a weight")
PROGRAMS = Role("programs", 2**24, 65536, 1, "", "a product of tile counts: programs of one grid, 16 M")
#: A count of tiles along one dimension.
TILE_COUNT = re.compile(r"(?:num|n|total)_?(?:pids?|tiles?|blocks?|programs?|wgs?)(?:_\w+)?|num_pid\w*|n?tiles_[mnk]")
RANGE = Role("tile", 65536, 1024, 16, "", "tl.arange: all of a row of 65,536, in registers")
FLAT_TOKENS = Role("tokens", 2**20, 131072, 1, "", "batch x sequence length: at most 1 M tokens in all")

DECODE_TOKENS = Role("tokens", 4096, 256, 1, "", "4,096 tokens a decoding step, however many are speculated")
GRID = Role("programs", 2**26, 65536, 1, "", "block id x tiles of another dimension: programs of one grid, 64 M")
HEADS = Role("position", 256, 64, 1, "", "index of a head x heads of a tile: heads, 128, rounded up to a tile")
INNERMOST = Role("innermost stride", 256, 1, 1, "", "1, but of an interleaved or transposed view")
TABLE_ROW = Role("table row", 1024, 256, 1, "", "384 experts or 128 heads, twice and one more")
HEAD_PART = Role("part of a head", 8, 2, 1, "", "a head of 512 in blocks of 64")
_TAPS = Role("filter", 16, 4, 1, "", "16 taps of a short convolution over a sequence")

#: What the name of a variable that holds a block id or a loaded value says of it.
INDEX_ROLES: tuple[Role, ...] = (
    Role("ring index", 4096, 1024, 1, r"ring\w*|\w+_ring", "4,096 places of a sequence's ring buffer"),
    Role("head index", 128, 32, 1, r".*head.*|hid|off_?h(?:_?\w)?|i_h\w?|h_id|pid_h|hkv?_?id|.*_hz?", "128 heads"),
    Role("expert index", 384, 256, 1, r".*expert.*|eids?|off_?e|pid_e|e_(?:id|idx)s?", "384 routed experts (Kimi K2)"),
    Role("split index", 64, 8, 1, r".*split.*|pid_k|k_?id|.*xcd.*", "64 parts of a split K or split KV"),
    Role("worker index", 1024, 256, 1, r"i_s|sm_?id|pid_sm|worker\w*|cu_?id", "a grid of one or a few programs a CU"),
    Role("batch index", 4096, 256, 1, r".*batch.*|bid|off_?[bz]|i_[bn]|pid_[bz]|b_id|.*_idx_b", "4,096 sequences"),
    Role("group index", 128, 8, 1, r"(?:cur_)?group\w*|g_?id|off_?g|pid_g", "128 groups of a normalisation"),
    Role(
        "column block",
        1024,
        64,
        1,
        r"i_[vkd]|pid_(?:n|d|v|col\w*)|.*col\w*_?bl\w*|bid_n|.*_n_block\w*",
        "1,024 blocks of 16 columns",
    ),
    Role("row index", 65535, 4096, 1, r".*row.*|.*token.*|pid_m|i_t|.*seq.*", "grid axes y and z end at 65,535"),
)
#: Such a tensor holds one value for 16 or more elements of what it describes: 1 M rows x 1,024 values fit 31 bits.
SUMMARY_POINTER = re.compile(
    r"(?:.*_)?(?:[a-z]{0,3}scales?|d?lse|rstd|rrms|d?mean|d?loss(?:es)?|exp_?sums?|max_?logits?|a(?:bs)?max|amin|zero_?points?|zeros|zp|alibi\w*|[ab]_?s)"
    r"(?:_(?:ptrs?|pointers?|base|start|in|out|cache|rsrc|resource|buf|buffer|desc))*",
    re.I,
)


@functools.cache
def is_summary(name: str) -> bool:
    """Whether a tensor of that name is one of :data:`SUMMARY_POINTER`."""
    return SUMMARY_POINTER.fullmatch(name) is not None


@functools.cache
def counts_tiles(name: str) -> bool:
    """Whether a variable of that name is one of :data:`TILE_COUNT`."""
    return TILE_COUNT.fullmatch(name.lower()) is not None


#: A sum counts where it exceeds the range by half: the limits of its terms are rounded up.
SUM_MARGIN = 3 * 2**30

#: Rows of the table for strides over whole matrices.
OUTER_STRIDES = ("outer stride", "kv head stride")
_TOKEN_SUFFIX = re.compile(r"(?:m|n|t|l|bs|row|rows|seq\w*|chunk|token\w*)(?:_in)?$")
#: Dimensions inside of a token, where a tensor is laid out so.
_INNER_SUFFIX = re.compile(r"_?(?:h|g|heads?|groups?|experts?)(?:_in)?$")
_OUTER_SUFFIX = re.compile(rf"_?(?:{_OUTER}|h)(?:_in)?$")

_LOWER = [(re.compile(role.pattern), re.compile(role.cased) if role.cased else None, role) for role in ROLES]


_INDEX = [(re.compile(role.pattern), role) for role in INDEX_ROLES]


@functools.cache
def index_role(name: str) -> Role | None:
    """The row for a variable that holds an index, by its name."""
    lower = name.lower().strip("_")
    return next((role for pattern, role in _INDEX if pattern.fullmatch(lower)), None)


def parameter_role(name: str, siblings: Sequence[str]) -> Role:
    """The row for a kernel parameter among the others.

    An outer stride spans a sequence only where the tensor has one: another stride with the same stem for its rows,
    declared after it. Declared before it (``stride_kn, stride_kh``), the rows are the outer ones.
    """
    explained = _explained(name, siblings)
    if explained is not None:
        return explained
    role = role_of(name)
    if role.name not in OUTER_STRIDES:
        return role
    stem, after = _OUTER_SUFFIX.sub("", name.lower()), False
    for other in siblings:
        low = other.lower()
        if low == name.lower():
            after = True
        elif low.startswith(stem) and _TOKEN_SUFFIX.fullmatch(low[len(stem) :].strip("_")):
            return role if after or not _INNER_SUFFIX.search(name.lower()) else INNER_STRIDE
    return PLAIN_STRIDE


#: Widths that are those of one head in a kernel that is also told how many heads there are.
_HEAD_WIDTH = re.compile(r"[KVD]|D[KV]?|HD|DIM")
#: A count of heads; in lower case ``h`` and ``g`` are tensors.
_HEAD_COUNT = re.compile(r"H[QKV]*|NH|\w*[Nn](?:[Uu][Mm])?_?\w*(?:HEADS?|heads?)")


@functools.cache
def _counts_heads(name: str) -> bool:
    return _HEAD_COUNT.fullmatch(name) is not None


def constant_role(name: str, siblings: Sequence[str]) -> Role | None:
    """The row for a compile-time parameter that only the others explain; None if its own name does."""
    if len(name) <= 3 and _HEAD_WIDTH.fullmatch(name) and any(map(_counts_heads, siblings)):
        return _HEAD_SIZE
    return _explained(name, siblings)


def _explained(name: str, siblings: Sequence[str]) -> Role | None:
    """The row for a parameter whose one letter stands for several things."""
    if name == "W" and "D" in siblings and not any(map(_IMAGE_SIDE.fullmatch, siblings)):
        return _TAPS
    if name == "K" and "N" not in siblings and "T" in siblings and any(map(_EXPERTS.fullmatch, siblings)):
        return _TOP_K
    if _SCORES.fullmatch(name) and any(map(_CAPACITY.fullmatch, siblings)):
        return _CONTEXT_ROW
    return None


#: Rows of scores, one for each token of a context (ROCm/aiter#4244).
_SCORES = re.compile(r"strides?_(?:out|o|logits?|scores?)_\w+", re.I)
_CAPACITY = re.compile(r"max_?(?:model|seq|context|ctx)_?len\w*", re.I)
_CONTEXT_ROW = Role("context row", 2**20, 131072, 1, "", "scores of a token over a context of 1 M tokens")
_EXPERTS = re.compile(r"E|(?:n|num)_?experts|N_?EXPERTS|NUM_EXPERTS", re.I)
#: The other side of an image, whose width a ``W`` may be.
_IMAGE_SIDE = re.compile(r"[IO]?H|H_?(?:IN|OUT)|[io]h|h_?(?:in|out)|height|HEIGHT")


_HEAD_SIZE = next(role for role in ROLES if role.name == "head size")
INNER_STRIDE = next(role for role in ROLES if role.name == "inner stride")
_TOP_K = next(role for role in ROLES if role.name == "top-k")
PLAIN_STRIDE = next(role for role in ROLES if role.name == "stride")


@functools.cache
def role_of(name: str, constant: bool = False) -> Role:
    """The row for an identifier (the last part of a dotted one); a default if no row names it."""
    tail = name.rpartition(".")[2].strip("_")
    tail = re.sub(r"^(?:i32|i64|arg|in|c)_|_(?:in|ptr|idx|i32|i64|const)$", "", tail)
    lower = tail.lower()
    for pattern, cased, role in _LOWER:
        if (cased and cased.fullmatch(name)) or pattern.fullmatch(lower):
            return role
    return DEFAULT_CONSTANT if constant else DEFAULT_PARAMETER


#: The rows that no name of its own leads to.
OTHER_ROLES: tuple[Role, ...] = (
    *PROGRAM_ID.values(),
    *(THREAD, LOADED, LOOP, POSITION, SPLIT_POSITION, HEADS, PROGRAMS, GRID, RANGE, FLAT_TOKENS, DECODE_TOKENS),
    *(INNERMOST, TABLE_ROW, HEAD_PART, _TAPS, _CONTEXT_ROW, DEFAULT_PARAMETER, DEFAULT_CONSTANT),
)
