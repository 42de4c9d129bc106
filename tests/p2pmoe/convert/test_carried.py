"""A converted file says of itself what its source said, and what has changed."""

from pathlib import Path

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert.carried import carried_metadata
from p2pmoe.convert.precision import DEFAULT_PRECISION, plan_conversion
from p2pmoe.text.loading import load_vocabulary
from p2pmoe.weights.model_file import open_model
from p2pmoe.weights.parts import Part
from tests.support.mini_m3 import write_mini_m3
from tests.support.vocabularies import byte_level_metadata

M3 = {"general.architecture": "minimax-m3"}


def test_keys_are_carried_over(tmp_path: Path) -> None:
    keys = {**byte_level_metadata(), **M3, "split.count": 1, "general.file_type": 99}
    keys["tokenizer.chat_template"] = "{{ messages }}"
    with open_model(write_mini_m3(tmp_path / "m.gguf", keys)) as model:
        plan = plan_conversion(model, DEFAULT_PRECISION)
        carried = carried_metadata(model, plan, None, "")
        own = dict(model.metadata)
    assert "split.count" not in carried
    assert carried["tokenizer.chat_template"] == "{{ messages }}"
    assert carried["general.file_type"] == 7
    assert carried["general.quantization_version"] == 2
    for key, value in own.items():
        if key not in {"split.count", "general.file_type", "general.alignment"}:
            assert carried[key] == value


def test_the_file_type_follows_the_bytes(tmp_path: Path) -> None:
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as model:
        for block_format, number in (
            (Format.F16, 1),
            (Format.Q4_0, 2),
            (Format.BF16, 32),
        ):
            all_alike = dict.fromkeys(Part, block_format)
            plan = plan_conversion(model, all_alike)
            found = carried_metadata(model, plan, None, "")["general.file_type"]
            assert found == (number if block_format is Format.Q4_0 else 7)
        assert carried_metadata(model, [], None, "")["general.file_type"] == 1024


def test_a_vocabulary_and_a_template_from_elsewhere(tmp_path: Path) -> None:
    keys = {**byte_level_metadata(), **M3, "tokenizer.ggml.pre": "unknown-xyz"}
    with open_model(write_mini_m3(tmp_path / "m.gguf", keys)) as model:
        plan = plan_conversion(model, DEFAULT_PRECISION)
        vocabulary = load_vocabulary(model, "gpt-2")
        carried = carried_metadata(model, plan, vocabulary, "hello")
    assert carried["tokenizer.ggml.pre"] == "gpt-2"
    assert carried["tokenizer.chat_template"] == "hello"
