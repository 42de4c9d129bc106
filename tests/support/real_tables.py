"""Tensors and general keys of published files; see `real_headers`."""

__all__ = [
    "ATTENTION",
    "DEEPSEEK_LITE",
    "DEEPSEEK_MLA",
    "DEEPSEEK_OLD",
    "DENSE",
    "ENDS",
    "GLM",
    "GPT_OSS",
    "MIXTRAL_2023",
    "NEXTN",
    "OLD_VOCABULARY",
    "PUBLISHED",
    "QWEN2_MOE",
    "STACKED",
]

ENDS = """
token_embd.weight q4_0 V E
output_norm.weight f32 E
output.weight q8_0 V E
"""
ATTENTION = """
blk.*.attn_norm.weight f32 E
blk.*.attn_q.weight q4_0 Q E
blk.*.attn_k.weight q4_0 K E
blk.*.attn_v.weight q5_0 K E
blk.*.attn_output.weight q4_0 E Q
"""
STACKED = """
blk.*.ffn_gate_inp.weight f32 X E
blk.*.ffn_gate_exps.weight q4_0 X F E
blk.*.ffn_up_exps.weight q4_0 X F E
blk.*.ffn_down_exps.weight q5_1 X E F
"""
# Until February 2024 each expert had tensors of its own, and routers were F16.
MIXTRAL_2023 = """
blk.*.ffn_gate.@.weight q4_k F E
blk.*.ffn_down.@.weight q6_k E F
blk.*.ffn_up.@.weight q4_k F E
blk.*.ffn_gate_inp.weight f16 X E
blk.*.attn_norm.weight f32 E
blk.*.ffn_norm.weight f32 E
blk.*.attn_k.weight q8_0 K E
blk.*.attn_output.weight q4_k E Q
blk.*.attn_q.weight q3_k Q E
blk.*.attn_v.weight q8_0 K E
"""
QWEN2_MOE = """
blk.*.ffn_gate_inp_shexp.weight f32 E
blk.*.ffn_gate_shexp.weight q4_0 S E
blk.*.ffn_up_shexp.weight q4_0 S E
blk.*.ffn_down_shexp.weight q8_0 E S
"""
DENSE = """
blk.0.ffn_norm.weight f32 E
blk.0.ffn_gate.weight q4_0 D E
blk.0.ffn_up.weight q4_0 D E
blk.0.ffn_down.weight q5_0 E D
blk.1+.ffn_norm.weight f32 E
blk.1+.ffn_gate_shexp.weight q4_0 S E
blk.1+.ffn_up_shexp.weight q4_0 S E
blk.1+.ffn_down_shexp.weight q5_0 E S
"""
_LATENT = """
blk.*.attn_norm.weight f32 E
blk.*.attn_kv_a_mqa.weight q8_0 L+R E
blk.*.attn_kv_a_norm.weight f32 L
blk.*.attn_output.weight q4_0 E N_HEADS*W
"""
_COMPRESSED_QUERY = """
blk.*.attn_q_a.weight q4_0 C E
blk.*.attn_q_a_norm.weight f32 C
blk.*.attn_q_b.weight q4_0 N_HEADS*N+R C
"""
DEEPSEEK_OLD = (
    _LATENT + _COMPRESSED_QUERY + "blk.*.attn_kv_b.weight q4_0 N_HEADS*N+W L\n"
)
DEEPSEEK_LITE = (
    _LATENT
    + """
blk.*.attn_q.weight q4_0 N_HEADS*N+R E
blk.*.attn_kv_b.weight q8_0 N_HEADS*N+W L
"""
)
DEEPSEEK_MLA = (
    _LATENT
    + _COMPRESSED_QUERY
    + """
blk.*.attn_k_b.weight q8_0 N_HEADS L N
blk.*.attn_v_b.weight q8_0 N_HEADS W L
"""
)
GLM = """
blk.*.post_attention_norm.weight f32 E
blk.0.ffn_gate.weight q4_0 D E
blk.0.ffn_up.weight q4_0 D E
blk.0.ffn_down.weight q5_0 E D
blk.1+.ffn_gate_inp.weight f32 X E
blk.1+.ffn_gate_exps.weight q4_0 X F E
blk.1+.ffn_up_exps.weight q4_0 X F E
blk.1+.ffn_down_exps.weight q5_0 X E F
blk.1+.ffn_gate_shexp.weight q4_0 S E
blk.1+.ffn_up_shexp.weight q4_0 S E
blk.1+.ffn_down_shexp.weight q8_0 E S
blk.1+.exp_probs_b.bias f32 X
"""
# What predicts a further token: a layer of its own behind the model's.
NEXTN = """
blk.2.nextn.eh_proj.weight q4_0 E 2*E
blk.2.nextn.embed_tokens.weight q4_0 V E
blk.2.nextn.enorm.weight f32 E
blk.2.nextn.hnorm.weight f32 E
blk.2.nextn.shared_head_head.weight q4_0 V E
blk.2.nextn.shared_head_norm.weight f32 E
"""
GPT_OSS = """
blk.*.attn_output.bias f32 E
blk.*.attn_sinks.weight f32 N_HEADS
blk.*.post_attention_norm.weight f32 E
blk.*.ffn_gate_inp.weight f32 X E
blk.*.ffn_gate_inp.bias f32 X
blk.*.ffn_gate_exps.weight mxfp4 X F E
blk.*.ffn_up_exps.weight mxfp4 X F E
blk.*.ffn_down_exps.weight mxfp4 X E F
blk.*.ffn_gate_exps.bias f32 X F
blk.*.ffn_up_exps.bias f32 X F
blk.*.ffn_down_exps.bias f32 X E
"""

OLD_VOCABULARY: dict[str, object] = {
    "tokenizer.ggml.padding_token_id": 0,
    "tokenizer.ggml.add_bos_token": True,
    "tokenizer.ggml.add_eos_token": False,
    "tokenizer.chat_template": "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ message['content'] + eos_token }}{% endif %}{% endfor %}",
}
# What repackers of 2024 and later put beside the model's own keys.
PUBLISHED: dict[str, object] = {
    "general.type": "model",
    "general.name": "A Published Model",
    "general.finetune": "Instruct",
    "general.basename": "A-Published-Model",
    "general.quantized_by": "Somebody",
    "general.size_label": "128x1.8B",
    "general.license": "apache-2.0",
    "general.license.link": "https://example.org/LICENSE",
    "general.repo_url": "https://example.org/models",
    "general.base_model.count": 1,
    "general.base_model.0.name": "A Published Model",
    "general.base_model.0.organization": "Somebody",
    "general.base_model.0.repo_url": "https://example.org/models/one",
    "general.tags": ["somebody", "text-generation"],
    "general.languages": ["en", "zh"],
    "general.sampling.temp": 0.6000000238418579,
    "general.file_type": 2,
    "general.quantization_version": 2,
    "quantize.imatrix.file": "A-Published-Model/imatrix.dat",
    "quantize.imatrix.dataset": "calibration.txt",
    "quantize.imatrix.entries_count": 384,
    "quantize.imatrix.chunks_count": 46,
}
