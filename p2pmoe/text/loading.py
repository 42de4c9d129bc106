"""The vocabulary of a model, wherever it keeps it; its header suffices.

A GGUF file has it in its metadata; a safetensors folder in its tokenizer.json, or else
in its tiktoken.model, and the files beside it.
"""

from p2pmoe.text.gguf_vocabulary import vocabulary_from_metadata
from p2pmoe.text.tiktoken_model import vocabulary_from_ranks
from p2pmoe.text.tokenizer_json import vocabulary_from_folder
from p2pmoe.text.vocabulary import Vocabulary
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["load_vocabulary"]


def load_vocabulary(
    model: ModelHeader, pretokenizer_override: str | None = None
) -> Vocabulary:
    """Read and check the vocabulary of a model.

    `pretokenizer_override` names the pre-tokenizer to use whatever the files say.

    Raises:
        PretokenizerUnknown: Byte-level, and the pre-tokenizer is missing or unknown.
        TokenizerError: Another tokenizer model, or an inconsistent vocabulary.
        ModelFileError: A key of the metadata is missing or of another type.
    """
    folder = model.folder
    if folder is None:
        return vocabulary_from_metadata(
            model.metadata, model.path, pretokenizer_override
        )
    ranks_only = not (folder / "tokenizer.json").exists()
    if ranks_only and (folder / "tiktoken.model").exists():
        return vocabulary_from_ranks(folder, pretokenizer_override)
    return vocabulary_from_folder(folder, pretokenizer_override)
