"""The rows of the error contract of the mixing entry points: what is illegal, which error, and what it must say.

The calls behind the rows are in ``mix_contract``, ``k1_contract`` and ``k2_contract``, under the same names.
"""

from __future__ import annotations

from validation.operation import ContractRow

_VALUE, _TYPE, _ARCH = "ValueError", "TypeError", "NotImplementedError"


def _rows(*rows: tuple[str, str, str | None, tuple[str, ...]]) -> tuple[ContractRow, ...]:
    return tuple(ContractRow(*row) for row in rows)


def _devices(*names: str) -> tuple[ContractRow, ...]:
    return tuple(
        ContractRow(f"device_{name}", f"{name} on another device", _VALUE, (name, "cpu", "meta")) for name in names
    )


_ANY = _rows(
    ("other_arch", "an arch without kernels", _ARCH, ("arch", "gfx942", "gfx950", "gfx90a")),
    ("hc_count_3", "HC that is not 2, 4 or 8", _VALUE, ("hc_count", "2, 4, 8", "3")),
    ("norm_weight_dtype", "norm_weight in float16", _VALUE, ("norm_weight", "bfloat16", "float32", "float16")),
    ("norm_weight_shape", "norm_weight that is neither [HS] nor [HC*HS]", _VALUE, ("norm_weight", "[HS]", "[513]")),
    ("norm_weight_strided", "norm_weight with gaps", _VALUE, ("norm_weight", "contiguous", "[2]")),
    ("norm_weight_sparse", "norm_weight in a sparse layout", _VALUE, ("norm_weight", "dense", "sparse_coo")),
    ("stream_device", "a stream of another device", _VALUE, ("stream", "cpu", "cuda:1")),
    ("stream_number", "a stream that is none", _TYPE, ("stream", "torch.cuda.Stream", "int 7")),
    ("operator_hc_count_3", "HC of 3, given to the operator itself", _VALUE, ("hc_count", "2, 4, 8", "3")),
)
_RESIDUAL = _rows(
    ("hs_untileable", "HS that no tile divides", _VALUE, ("residual", "512", "520")),
    ("eps_zero", "eps must be above zero", _VALUE, ("eps", "above 0", "0.0")),
    ("operator_eps_zero", "eps of zero, given to the operator itself", _VALUE, ("eps", "above 0", "0.0")),
    ("eps_denormal", "eps that the kernels would take for 0", _VALUE, ("eps", "normal range of float32", "1e-40")),
    ("eps_overflow", "eps beyond float32", _VALUE, ("eps", "normal range of float32", "1e+39")),
    ("residual_dtype", "residual must be bf16", _VALUE, ("residual", "bfloat16", "float32")),
    ("residual_rank", "residual must be [M, HC*HS]", _VALUE, ("residual", "rank 2", "HC*HS")),
    ("residual_unaligned", "residual between two 16-byte units", _VALUE, ("residual", "aligned to 16 bytes")),
    ("residual_row_stride", "rows that are not 16 bytes apart", _VALUE, ("residual", "row stride", "multiple of 8")),
)
_PENDING = _rows(
    ("block_output_dtype", "block_output must be bf16", _VALUE, ("block_output", "bfloat16", "float16")),
    ("block_output_width", "one column too few", _VALUE, ("block_output", "[M, HS]", "511]")),
    ("injection_dtype", "injection must be bf16", _VALUE, ("injection", "bfloat16", "float32")),
    ("injection_shape", "injection of another HC", _VALUE, ("injection", "[M, HC]", "8]")),
    ("injection_inner", "injection whose inner dimension is not contiguous", _VALUE, ("injection", "contiguous")),
)
_W_UP = {
    "shape": ("w_up of another r", ("w_up", "[HC*HS, r]", "[2048, 40]")),
    "dtype": ("w_up must be bf16", ("w_up", "bfloat16", "float32")),
    "order": ("w_up in column-major order", ("w_up", "contiguous", "[1, 2048]")),
    "device": ("w_up on another device", ("w_up", "cpu", "meta")),
}

_MIX = (
    *_rows(
        ("zero_rows", "M = 0 gives empty outputs without a launch", None, ()),
        ("zero_rows_final", "M = 0 of a final mixer has no inj_next", None, ()),
        ("zero_rows_unmerged", "M = 0 with weights that nobody merged", None, ()),
    ),
    *_ANY,
    *_RESIDUAL,
    *_rows(
        ("fold_w_number", "fold_w must be a bool", _VALUE, ("fold_w", "True or False", "1")),
        ("residual_missing", "residual that is no tensor", _TYPE, ("residual", "a tensor", "None")),
        ("norm_weight_unaligned", "norm_weight between 16-byte units", _VALUE, ("norm_weight", "aligned to 16 bytes")),
        ("w_down_dtype", "w_down must be bf16", _VALUE, ("w_down", "bfloat16", "float16")),
        ("w_down_width", "w_down of another K", _VALUE, ("w_down", "[r, HC*HS]", "2056]")),
        ("r_untileable", "an r that K2 cannot tile", _VALUE, ("w_down", "multiple of 8", "r=12")),
        ("r_too_large", "an r beyond K2's registers", _VALUE, ("w_down", "512", "r=520")),
        ("w_inject_dtype", "w_inject must be bf16", _VALUE, ("w_inject", "bfloat16", "float32")),
        ("w_inject_rows", "w_inject of another HC", _VALUE, ("w_inject", "[HC, HC*HS]", "[5, 2048]")),
        ("merged_dtype", "w_down_merged must be bf16", _VALUE, ("w_down_merged", "bfloat16", "float32")),
        ("merged_rank", "w_down_merged of three dimensions", _VALUE, ("w_down_merged", "rank 2", "[n_pad, HC*HS]")),
        ("w_down_rank", "w_down of three dimensions", _VALUE, ("w_down", "rank 2", "[r, HC*HS]")),
        ("merged_width", "w_down_merged of another K", _VALUE, ("w_down_merged", "[n_pad, HC*HS]", "2056]")),
        ("merged_too_few", "fewer rows than w_down and w_inject", _VALUE, ("w_down_merged", "at least 36", "32 rows")),
        ("merged_untileable", "an n_pad that no path tiles", _VALUE, ("w_down_merged", "multiple of 16", "44 rows")),
        ("merged_skinny_only", "n_pad = 40 on a tiled path", _VALUE, ("w_down_merged", "multiple of 16", "M=32")),
        (
            "merged_unfolded_skinny_only",
            "n_pad = 40 with an unfolded weight",
            _VALUE,
            ("w_down_merged", "multiple of 16", "fold_w=False"),
        ),
        (
            "merged_strided",
            "w_down_merged with gaps between rows",
            _VALUE,
            ("w_down_merged", "contiguous", "[2056, 1]"),
        ),
    ),
    *_devices("norm_weight", "w_down", "w_inject", "w_down_merged"),
    *(
        ContractRow(f"w_up_{what}_{path}", f"{why}, {path} path", _VALUE, mentions)
        for path in ("skinny", "tiled")
        for what, (why, mentions) in _W_UP.items()
    ),
)
MIX_CONTRACT = _MIX
COMBINE_AND_MIX_CONTRACT = (
    *_MIX,
    *_PENDING,
    *_rows(
        ("block_output_rows", "one row too many", _VALUE, ("block_output", "[M, HS]", "[5, 512]")),
        (
            "block_output_unaligned",
            "block_output between two 16-byte units",
            _VALUE,
            ("block_output", "aligned to 16 bytes"),
        ),
    ),
    *_devices("block_output", "injection"),
)

_BUFFER_FORMS = {
    "r2_out": ("[M, HC*HS]", "bfloat16", "2056]"),
    "out": ("[M, n_pad]", "bfloat16", "56]"),
    "rrms_out": ("[M, HC]", "float32", "12]"),
}
K1_CONTRACT = (
    *_rows(
        ("zero_rows", "M = 0 gives the caller's empty buffers without a launch", None, ()),
        ("zero_rows_alloc", "M = 0 gives empty outputs without a launch", None, ()),
    ),
    *_ANY,
    *_RESIDUAL,
    *_PENDING,
    *_rows(
        ("too_many_rows", "more rows than one launch covers", _VALUE, ("residual", "rows in one launch", str(1 << 40))),
        ("row_tail", "M = 100, which no tile divides", _VALUE, ("gemm_pad", "multiple of 16", "M=100")),
        ("row_tail_17_unfolded", "M = 17 with an unfolded weight", _VALUE, ("gemm_pad", "multiple of 16", "M=17")),
        ("gemm_pad_small", "gemm_pad below M", _VALUE, ("gemm_pad", "at least", "96")),
        ("gemm_pad_small_skinny", "gemm_pad below M on the skinny path", _VALUE, ("gemm_pad", "at least M=4", "3")),
        ("gemm_pad_untileable", "gemm_pad that no tile divides", _VALUE, ("gemm_pad", "multiple of 16", "120")),
        ("stages_1", "a pipeline of one stage", _VALUE, ("stages", "at least 2", "1")),
        ("stages_too_deep", "a pipeline deeper than LDS and vmcnt allow", _VALUE, ("stages", "2 to", "LDS", "1000")),
        ("stages_with_split_k", "a deep pipeline with split_k above 1", _VALUE, ("stages", "split_k", "3")),
        ("split_k_0", "split_k of 0", _VALUE, ("split_k", "auto", "positive", "0")),
        ("split_k_3", "split_k that divides nothing", _VALUE, ("split_k", "divisor", "3")),
        ("block_m_24", "a tile height there is none of", _VALUE, ("block_m", "16", "24")),
        ("sk_block_m_24", "the same for split-K", _VALUE, ("sk_block_m", "16", "24")),
        ("dn_block_m_24", "the same for the decoupled path", _VALUE, ("dn_block_m", "16", "24")),
        ("dn_block_m_24_stages", "the same where `stages` asks for that path", _VALUE, ("dn_block_m", "16", "24")),
        ("dn_block_m_text", "a tile height that is no number", _VALUE, ("dn_block_m", "positive integer", "'16'")),
        ("lowrank_too_large", "no room for the inject rows", _VALUE, ("lowrank", "at most", "45")),
        ("lowrank_0", "r of 0", _VALUE, ("lowrank", "positive", "0")),
        ("operator_lowrank_0", "r of 0, given to the operator itself", _VALUE, ("lowrank", "positive", "0")),
        ("weight_dtype", "w_dn_merged must be bf16", _VALUE, ("w_dn_merged", "bfloat16", "float32")),
        ("weight_width", "w_dn_merged of another K", _VALUE, ("w_dn_merged", "[n_pad, HC*HS]", "2056]")),
        ("weight_untileable", "an n_pad that no path tiles", _VALUE, ("w_dn_merged", "multiple of 16", "44 rows")),
        ("weight_skinny_only", "n_pad = 40 on a tiled path", _VALUE, ("w_dn_merged", "multiple of 16", "M=32")),
        ("weight_n8_tiled", "n_pad = 8 on a tiled path", _VALUE, ("w_dn_merged", "multiple of 16", "8 rows")),
        ("weight_strided", "w_dn_merged with gaps between rows", _VALUE, ("w_dn_merged", "contiguous", "[2056, 1]")),
    ),
    *_devices("block_output", "injection", "norm_weight", "w_dn_merged", *_BUFFER_FORMS),
    *(
        row
        for name, (meaning, dtype, given) in _BUFFER_FORMS.items()
        for row in _rows(
            (f"{name}_shape", f"{name} of another shape", _VALUE, (name, meaning, given)),
            (f"{name}_dtype", f"{name} in float16", _VALUE, (name, dtype, "float16")),
            (f"{name}_strided", f"{name} with gaps between rows", _VALUE, (name, "contiguous")),
            (f"{name}_unaligned", f"{name} between two 16-byte units", _VALUE, (name, "aligned to 16 bytes")),
            (f"{name}_tracked", f"{name} that autograd records", _VALUE, (name, "requires_grad", "no_grad")),
        )
    ),
    *_rows(
        ("r2_in_place", "r2 written over the residual", _VALUE, ("r2_out", "disjoint", "residual")),
        ("r2_overlaps_block_output", "r2 ends in block_output", _VALUE, ("r2_out", "disjoint", "block_output")),
        ("packed_overlaps_weight", "packed ends in the weight", _VALUE, ("out", "disjoint", "w_dn_merged")),
        ("rrms_overlaps_norm_weight", "rrms ends in norm_weight", _VALUE, ("rrms_out", "disjoint", "norm_weight")),
        ("outputs_overlap", "packed inside r2's buffer", _VALUE, ("out", "disjoint", "r2_out")),
    ),
)

K2_CONTRACT = (
    *_rows(
        ("zero_rows", "M = 0 gives the caller's empty buffer without a launch", None, ()),
        ("zero_rows_alloc", "M = 0 gives an empty output without a launch", None, ()),
    ),
    *_ANY,
    *_rows(
        ("hs_untileable", "HS that no tile divides", _VALUE, ("r2", "512", "520")),
        ("r_untileable", "an r that no tile divides", _VALUE, ("lora", "multiple of 8", "r=12")),
        ("r_too_large", "an r beyond the registers", _VALUE, ("lora", "512", "r=520")),
        ("row_tail", "M = 17", _VALUE, ("lora", "16", "17 rows")),
        ("row_tail_100", "M = 100", _VALUE, ("lora", "16", "100 rows")),
        ("block_m_24", "a tile height there is none of", _VALUE, ("block_m", "16", "24")),
        ("block_m_registers", "a tile too high for its r", _VALUE, ("block_m", "fits r=512", "128")),
        ("block_m_tail", "a tile height that does not divide the rows", _VALUE, ("lora", "32", "48 rows")),
        ("lora_dtype", "lora must be bf16", _VALUE, ("lora", "bfloat16", "float32")),
        ("lora_rows", "lora with more rows than r2", _VALUE, ("lora", "[M, r]", "[48, 32]")),
        ("lora_rank", "lora must be [M, r]", _VALUE, ("lora", "rank 2", "[M, r]")),
        ("lora_inner", "lora whose inner dimension is not contiguous", _VALUE, ("lora", "contiguous")),
        ("lora_unaligned", "lora between two 16-byte units", _VALUE, ("lora", "aligned to 16 bytes")),
        ("r2_dtype", "r2 must be bf16", _VALUE, ("r2", "bfloat16", "float32")),
        ("r2_rank", "r2 must be [M, HC*HS]", _VALUE, ("r2", "rank 2", "HC*HS")),
        ("r2_unaligned", "r2 between two 16-byte units", _VALUE, ("r2", "aligned to 16 bytes")),
        ("r2_row_stride", "rows that are not 16 bytes apart", _VALUE, ("r2", "row stride", "multiple of 8")),
        ("rrms_dtype", "rrms must be float32", _VALUE, ("rrms", "float32", "bfloat16")),
        ("rrms_shape", "rrms of another HC", _VALUE, ("rrms", "[M, HC]", "[32, 8]")),
        ("rrms_strided", "rrms with gaps between rows", _VALUE, ("rrms", "contiguous")),
        ("w_up_dtype", "w_up must be bf16", _VALUE, _W_UP["dtype"][1]),
        ("w_up_shape", "w_up of another r", _VALUE, _W_UP["shape"][1]),
        ("w_up_order", "w_up in column-major order", _VALUE, _W_UP["order"][1]),
        ("w_up_strided", "w_up with gaps between rows", _VALUE, ("w_up", "contiguous", "[40, 1]")),
        ("block_input_shape", "output of another shape", _VALUE, ("block_input", "[M, HS]", "520]")),
        ("block_input_dtype", "output in float32", _VALUE, ("block_input", "bfloat16", "float32")),
        ("block_input_strided", "output with gaps between rows", _VALUE, ("block_input", "contiguous")),
        ("block_input_unaligned", "output between units", _VALUE, ("block_input", "aligned to 16 bytes")),
        ("block_input_tracked", "an output that autograd records", _VALUE, ("block_input", "requires_grad", "no_grad")),
        ("block_input_overlaps_r2", "the output ends in r2", _VALUE, ("block_input", "disjoint", "r2")),
        ("block_input_overlaps_w_up", "the output ends in w_up", _VALUE, ("block_input", "disjoint", "w_up")),
    ),
    *_devices("lora", "rrms", "norm_weight", "w_up", "block_input"),
)
