"""Whatever keeps a model from running here is one line that names it."""

from pathlib import Path

import pytest

from p2pmoe.inspect.inventory import take_inventory
from p2pmoe.inspect.obstacles import Verdict, judge
from p2pmoe.weights.model_file import read_header
from tests.support.gguf_writer import TensorBytes, gguf_bytes
from tests.support.header_only import write_kimi_k3, write_minimax_m3
from tests.support.mini_m3 import MINI_METADATA, mini_tensors, write_mini_m3
from tests.support.shared import shared_path
from tests.support.vocabularies import byte_level_metadata

POCKET = Path(__file__).resolve().parents[3] / "p2pmoe/models/pocket-q4_0.gguf"


M3 = {"general.architecture": "minimax-m3"}


def verdict_of(path: Path) -> Verdict:
    header = read_header(path)
    return judge(header, take_inventory(header))


def mini(
    path: Path, keys: dict[str, object | None] | None = None, n_vocab: int = 300
) -> Path:
    metadata = {**byte_level_metadata(), **M3, **(keys or {})}
    return write_mini_m3(path, metadata, n_vocab=n_vocab)


def test_the_shipped_model_runs() -> None:
    verdict = verdict_of(POCKET)
    assert verdict.obstacles == ()
    assert verdict.description is not None
    assert verdict.description.kv_bytes_per_token > 0
    assert verdict.vocabulary is not None
    assert verdict.vocabulary.pretokenizer == "gpt-2"
    assert verdict.has_template


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (
            {"general.architecture": "unheard-of"},
            "architecture 'unheard-of' is not one",
        ),
        ({"tokenizer.ggml.pre": None}, "pre-tokenizer is missing"),
        ({"tokenizer.ggml.pre": "unknown-xyz"}, "pre-tokenizer 'unknown-xyz'"),
        ({"minimax-m3.attention.head_count": None}, "head_count"),
        ({"minimax-m3.expert_count": 5}, "not [5, rows, columns]"),
    ],
)
def test_one_thing_that_is_wrong_is_named(
    tmp_path: Path, keys: dict[str, object | None], line: str
) -> None:
    if "general.architecture" in keys:
        keys = {**keys, "unheard-of.block_count": 2}
    found = verdict_of(mini(tmp_path / "m.gguf", keys)).obstacles
    assert len(found) == 1, found
    assert line in found[0]
    assert str(tmp_path) not in found[0]


def test_b07_a_template_that_does_not_compile_costs_chats_alone(tmp_path: Path) -> None:
    path = mini(tmp_path / "m.gguf", {"tokenizer.chat_template": "{% for"})
    verdict = verdict_of(path)
    assert verdict.obstacles == ()
    assert verdict.has_template
    assert "chat template does not compile" in verdict.template_fault


@pytest.mark.parametrize(
    "name",
    [
        "token_embd.weight",
        "output_norm.weight",
        "blk.1.attn_output.weight",
        "blk.0.ffn_norm.weight",
        "blk.1.ffn_up_exps.weight",
    ],
)
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    keys = {**byte_level_metadata(), **M3}
    path = write_mini_m3(tmp_path / "m.gguf", keys, {name: None}, n_vocab=300)
    (found,) = verdict_of(path).obstacles
    assert name in found
    assert "is missing" in found


def test_a_missing_router_is_named(tmp_path: Path) -> None:
    keys = {**byte_level_metadata(), **M3}
    dropped = {"blk.1.ffn_gate_inp.weight": None}
    path = write_mini_m3(tmp_path / "m.gguf", keys, dropped)
    assert "ffn_gate_inp" in " ".join(verdict_of(path).obstacles)


def test_of_many_missing_tensors_a_few_are_named(tmp_path: Path) -> None:
    own = [t for name, t in mini_tensors(300).items() if "attn" not in name]
    keys = {**MINI_METADATA, **byte_level_metadata(), **M3}
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(keys, own))
    found = verdict_of(tmp_path / "m.gguf").obstacles
    assert found[-1] == "1 more tensors are missing"
    assert len(found) == 4


def test_a_format_without_arithmetic_is_named(tmp_path: Path) -> None:
    own = mini_tensors(300)
    own["blk.1.attn_q.weight"] = TensorBytes(
        name="blk.1.attn_q.weight",
        type=28,
        shape=(128, 64),
        content=bytes(8 * 128 * 64),
    )
    keys = {**MINI_METADATA, **byte_level_metadata(), **M3}
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(keys, list(own.values())))
    (found,) = verdict_of(tmp_path / "m.gguf").obstacles
    assert found == "format F64 (1 tensors) has no arithmetic here"


def test_no_experts(tmp_path: Path) -> None:
    keys = {**MINI_METADATA, **byte_level_metadata(), **M3}
    own = [t for name, t in mini_tensors(300).items() if "_exps" not in name]
    (tmp_path / "m.gguf").write_bytes(gguf_bytes(keys, own))
    assert any(
        "no routed experts" in x for x in verdict_of(tmp_path / "m.gguf").obstacles
    )


def test_weights_that_are_not_there_yet(tmp_path: Path) -> None:
    found = verdict_of(write_minimax_m3(tmp_path / "m3.gguf")).obstacles
    assert any("IQ3_S (114 tensors)" in line for line in found)
    assert any(line.startswith("needs 2076") for line in found)
    assert any("tokenizer.ggml.model" in line for line in found)


def test_kimi_k3_is_refused_in_one_line(tmp_path: Path) -> None:
    found = verdict_of(write_kimi_k3(tmp_path / "k3.gguf")).obstacles
    assert found[0].startswith("Kimi-K3 is not run here")
    assert "models inspect" not in found[0]  # this is it


@pytest.mark.parametrize("name", ["minimax_m3"])
def test_the_tiny_models_run(name: str) -> None:
    path = shared_path(f"models/tiny/{name}/model-f32.gguf")
    assert verdict_of(path).obstacles == ()


def test_more_tokens_than_embeddings_are_told(tmp_path: Path) -> None:
    found = verdict_of(mini(tmp_path / "m.gguf", n_vocab=96)).obstacles
    assert len(found) == 1
    assert "tokens for 96 embeddings" in found[0]
