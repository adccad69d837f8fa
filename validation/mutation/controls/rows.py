"""Contract rows that each entry point must have: the refusals that earlier defects of such kernels call for."""

from __future__ import annotations

#: Entry point to words: each must be the name of one of its contract rows.
ROWS: dict[str, str] = {
    "combine": (
        "zero_rows zero_rows_out other_arch hc_count_3 hs_untileable eps_zero eps_denormal eps_overflow "
        "operator_hc_count_3 operator_eps_zero norm_weight_sparse norm_weight_strided stream_number "
        "residual_dtype residual_rank residual_unaligned residual_row_stride too_many_rows block_output_dtype "
        "block_output_dtype_again block_output_rows block_output_width injection_dtype injection_shape "
        "injection_inner norm_weight_dtype norm_weight_shape device_block_output device_injection "
        "stream_device out_shape out_dtype out_strided out_unaligned out_device out_is_residual "
        "out_overlaps_input out_in_gaps out_tracked"
    ),
    "combine_and_mix": (
        "zero_rows zero_rows_final zero_rows_unmerged other_arch hc_count_3 norm_weight_dtype "
        "norm_weight_shape stream_device stream_number norm_weight_sparse norm_weight_strided "
        "operator_hc_count_3 operator_eps_zero hs_untileable eps_zero eps_denormal eps_overflow "
        "residual_dtype residual_rank residual_unaligned residual_row_stride fold_w_number residual_missing "
        "norm_weight_unaligned w_down_dtype w_down_width r_untileable r_too_large w_inject_dtype "
        "w_inject_rows merged_dtype merged_width merged_rank w_down_rank merged_too_few merged_untileable "
        "merged_skinny_only merged_unfolded_skinny_only merged_strided device_norm_weight device_w_down "
        "device_w_inject device_w_down_merged w_up_shape_skinny w_up_dtype_skinny w_up_order_skinny "
        "w_up_device_skinny w_up_shape_tiled w_up_dtype_tiled w_up_order_tiled w_up_device_tiled "
        "block_output_dtype block_output_width injection_dtype injection_shape injection_inner "
        "block_output_rows block_output_unaligned device_block_output device_injection"
    ),
    "mix": (
        "zero_rows zero_rows_final zero_rows_unmerged other_arch hc_count_3 norm_weight_dtype "
        "norm_weight_shape stream_device stream_number norm_weight_sparse norm_weight_strided "
        "operator_hc_count_3 operator_eps_zero hs_untileable eps_zero eps_denormal eps_overflow "
        "residual_dtype residual_rank residual_unaligned residual_row_stride fold_w_number residual_missing "
        "norm_weight_unaligned w_down_dtype w_down_width r_untileable r_too_large w_inject_dtype "
        "w_inject_rows merged_dtype merged_width merged_rank w_down_rank merged_too_few merged_untileable "
        "merged_skinny_only merged_unfolded_skinny_only merged_strided device_norm_weight device_w_down "
        "device_w_inject device_w_down_merged w_up_shape_skinny w_up_dtype_skinny w_up_order_skinny "
        "w_up_device_skinny w_up_shape_tiled w_up_dtype_tiled w_up_order_tiled w_up_device_tiled"
    ),
    "k1": (
        "zero_rows zero_rows_alloc other_arch hc_count_3 norm_weight_dtype norm_weight_shape stream_device "
        "stream_number norm_weight_sparse norm_weight_strided operator_hc_count_3 operator_eps_zero "
        "too_many_rows hs_untileable eps_zero eps_denormal eps_overflow residual_dtype residual_rank "
        "residual_unaligned residual_row_stride block_output_dtype block_output_width injection_dtype "
        "injection_shape injection_inner row_tail row_tail_17_unfolded gemm_pad_small gemm_pad_small_skinny "
        "gemm_pad_untileable stages_1 stages_too_deep stages_with_split_k split_k_0 split_k_3 block_m_24 "
        "lowrank_too_large lowrank_0 operator_lowrank_0 weight_dtype weight_width weight_untileable "
        "weight_skinny_only weight_n8_tiled weight_strided device_block_output device_injection "
        "device_norm_weight device_w_dn_merged device_r2_out device_out device_rrms_out r2_out_shape "
        "r2_out_dtype r2_out_strided r2_out_unaligned out_shape out_dtype out_strided out_unaligned "
        "rrms_out_shape rrms_out_dtype rrms_out_strided rrms_out_unaligned r2_in_place "
        "r2_overlaps_block_output packed_overlaps_weight rrms_overlaps_norm_weight outputs_overlap "
        "r2_out_tracked out_tracked rrms_out_tracked sk_block_m_24 dn_block_m_24 dn_block_m_24_stages "
        "dn_block_m_text"
    ),
    "k2": (
        "zero_rows zero_rows_alloc other_arch hc_count_3 norm_weight_dtype norm_weight_shape stream_device "
        "stream_number norm_weight_sparse norm_weight_strided operator_hc_count_3 block_m_registers "
        "hs_untileable r_untileable r_too_large row_tail row_tail_100 block_m_24 block_m_tail lora_dtype "
        "lora_rows lora_rank lora_inner lora_unaligned r2_dtype r2_rank r2_unaligned r2_row_stride rrms_dtype "
        "rrms_shape rrms_strided w_up_dtype w_up_shape w_up_order w_up_strided block_input_shape "
        "block_input_dtype block_input_strided block_input_unaligned block_input_overlaps_r2 "
        "block_input_overlaps_w_up device_lora device_rrms device_norm_weight device_w_up device_block_input "
        "block_input_tracked"
    ),
}
