"""The plan: matrices get their part's format, everything else stays exact."""

from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert.precision import DEFAULT_PRECISION, PlannedTensor, plan_conversion
from p2pmoe.weights.model_file import read_header
from p2pmoe.weights.parts import Part
from tests.support.header_only import write_header_only, write_kimi_k3
from tests.support.mini_m3 import write_mini_m3

KEYS = {"general.architecture": "x", "x.block_count": 1}


def plan_of(path: Path, **changes: Format | None) -> dict[str, PlannedTensor]:
    precision = {**DEFAULT_PRECISION, **{Part[k]: v for k, v in changes.items()}}
    plan = plan_conversion(read_header(path), precision)
    return {tensor.source.name: tensor for tensor in plan}


def one(tmp_path: Path, name: str, own: Format, *shape: int) -> Path:
    return write_header_only(tmp_path / "m.gguf", KEYS, iter([(name, own, shape)]))


def test_the_default_spares_what_decides(tmp_path: Path) -> None:
    plan = plan_of(write_kimi_k3(tmp_path / "k3.gguf"))
    formats = {name: tensor.format for name, tensor in plan.items()}
    assert formats["blk.1.ffn_gate_inp.weight"] is Format.F32
    assert formats["blk.1.attn_norm.weight"] is Format.F32
    assert formats["blk.1.exp_probs_b.bias"] is Format.F32
    assert formats["blk.3.attn_q_b.weight"] is Format.Q8_0
    assert formats["blk.3.ffn_gate_shexp.weight"] is Format.Q8_0
    assert formats["output.weight"] is Format.Q8_0


def test_experts_go_to_four_bits(tmp_path: Path) -> None:
    plan = plan_of(write_mini_m3(tmp_path / "m.gguf"))
    expert = plan["blk.1.ffn_up_exps.weight"]
    assert expert.format is Format.Q4_0
    assert not expert.is_copy
    assert expert.n_bytes == 4 * 32 * 64 // 32 * 18
    assert plan["blk.0.attn_q.weight"].is_copy
    assert plan["blk.1.indexer.q_proj.weight"].format is Format.F32


def test_what_has_few_bits_already_is_kept(tmp_path: Path) -> None:
    name = "blk.0.attn_q.weight"
    for own in (Format.Q4_0, Format.IQ3_S, Format.Q8_0):
        path = one(tmp_path, name, own, 8, 256)
        assert plan_of(path)[name].format is own
    for own in (Format.F16, Format.BF16, Format.F32):
        path = one(tmp_path, name, own, 8, 256)
        assert plan_of(path)[name].format is Format.Q8_0
    path = one(tmp_path, name, Format.BF16, 8, 256)
    assert plan_of(path, ATTENTION=Format.F16)[name].format is Format.F16
    path = one(tmp_path, name, Format.Q4_0, 8, 256)
    assert plan_of(path, ATTENTION=Format.MXFP4)[name].format is Format.MXFP4


def test_only_matrices_of_weights_change(tmp_path: Path) -> None:
    for name, shape in (
        ("blk.0.attn_q.bias", (64,)),
        ("blk.0.ffn_up_exps.bias", (8, 64)),
        ("blk.0.attn_sinks.weight", (64,)),
        ("blk.0.ssm_a", (64,)),
    ):
        path = one(tmp_path, name, Format.BF16, *shape)
        assert plan_of(path)[name].format is Format.F32, name


def test_keep_changes_nothing(tmp_path: Path) -> None:
    path = one(tmp_path, "blk.0.attn_q.bias", Format.BF16, 64)
    assert plan_of(path, ATTENTION=None)["blk.0.attn_q.bias"].is_copy


def test_rows_that_are_no_whole_blocks(tmp_path: Path) -> None:
    name = "blk.0.ffn_up_exps.weight"
    path = one(tmp_path, name, Format.F32, 2, 4, 40)
    (tensor,) = plan_of(path).values()
    assert (tensor.format, tensor.misfit) == (Format.F32, Format.Q4_0)
    assert tensor.n_bytes == tensor.source.n_bytes
    path = one(tmp_path, name, Format.F32, 2, 4, 64)
    assert plan_of(path)[name].misfit is None
