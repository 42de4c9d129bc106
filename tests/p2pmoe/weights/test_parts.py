"""Every tensor of the models that are known belongs to the part that people mean."""

import pytest

from p2pmoe.weights.parts import Part, part_of

NAMES = {
    Part.EXPERTS: "ffn_gate_exps.weight ffn_down_exps.bias ffn_gate_up_exps.weight "
    "ffn_up_gate_exps.weight ffn_up.17.weight ffn_up_exps.scale",
    Part.SHARED: "ffn_gate_shexp.weight ffn_down_shexp.bias ffn_gate_inp_shexp.weight",
    Part.LATENT: "ffn_routed_down.weight ffn_routed_up.weight ffn_latent_up.weight",
    Part.ROUTER: "ffn_gate_inp.weight ffn_gate_inp.bias exp_probs_b.bias exp_probs_b",
    Part.ATTENTION: "attn_q.weight attn_q.bias attn_kv_a_mqa.weight attn_k_b.weight "
    "attn_sinks.weight attn_output.weight indexer.q_proj.weight ssm_conv1d_q.weight "
    "ssm_a ssm_dt.bias attn_gate.weight",
    Part.DENSE: "ffn_gate.weight ffn_up.weight ffn_down.weight ffn_down.bias",
    Part.REST: "attn_norm.weight ffn_norm.weight post_attention_norm.weight "
    "attn_q_norm.weight attn_kv_a_norm.weight indexer.q_norm.weight ssm_norm.weight "
    "attn_res_score.weight ffn_routed_norm.weight rope_factors_long.weight what.weight",
    Part.NEXT: "nextn.eh_proj.weight nextn.shared_head_norm.weight",
}
CASES = [(name, part) for part, names in NAMES.items() for name in names.split()]


@pytest.mark.parametrize(("ending", "part"), CASES)
def test_a_block_s_tensors(ending: str, part: Part) -> None:
    assert part_of(f"blk.3.{ending}", 4) is part
    assert part_of(f"blk.4.{ending}", 4) is Part.NEXT


def test_tensors_of_no_block() -> None:
    assert part_of("token_embd.weight", 4) is Part.EMBEDDING
    assert part_of("output.weight", 4) is Part.EMBEDDING
    assert part_of("output_norm.weight", 4) is Part.REST
    assert part_of("rope_freqs.weight", 4) is Part.REST
    assert part_of("blk.x.attn_q.weight", 4) is Part.REST
