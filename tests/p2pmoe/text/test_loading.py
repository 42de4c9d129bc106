from pathlib import Path
from types import SimpleNamespace

from p2pmoe.text.loading import load_vocabulary
from p2pmoe.text.vocabulary import VocabularyKind
from tests.support.tokenizer_folders import byte_level_document, write_folder
from tests.support.vocabularies import byte_level_metadata, vocabulary_file


def test_a_gguf_has_it_in_its_metadata(tmp_path: Path) -> None:
    with vocabulary_file(tmp_path, byte_level_metadata()) as model:
        vocabulary = load_vocabulary(model)
        assert load_vocabulary(model, "llama-bpe").pretokenizer == "llama-bpe"
    assert vocabulary.kind is VocabularyKind.BYTE_LEVEL
    assert vocabulary.pretokenizer == "gpt-2"


def test_a_folder_has_it_in_its_tokenizer_json(tmp_path: Path) -> None:
    write_folder(tmp_path, byte_level_document())
    model = SimpleNamespace(folder=tmp_path)
    assert load_vocabulary(model).texts[-1] == "<think>"  # type: ignore[arg-type]
    other = load_vocabulary(model, "qwen2")  # type: ignore[arg-type]
    assert other.pretokenizer == "qwen2"
