"""The metadata that a converted file gets: the source's own, and what has changed.

Keys of a split set are left out, since one file is written. A folder's tokenizer and
chat template, which lie beside its weights, become metadata. `general.file_type` is
the number that llama.cpp gives to a file most of whose bytes are in one format.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.convert.container import ALIGNMENT
from p2pmoe.convert.precision import PlannedTensor
from p2pmoe.text.gguf_vocabulary import vocabulary_metadata
from p2pmoe.text.vocabulary import Vocabulary
from p2pmoe.weights.metadata import MetadataValue
from p2pmoe.weights.model_header import ModelHeader

__all__ = ["carried_metadata"]

_TEMPLATE: Final = "tokenizer.chat_template"
_QUANTIZATION_VERSION: Final = 2
# llama.cpp's numbers of files by their prevailing format (llama_ftype).
_FILE_TYPES: Final = {
    Format.F32: 0,
    Format.F16: 1,
    Format.Q4_0: 2,
    Format.Q4_1: 3,
    Format.Q8_0: 7,
    Format.Q5_0: 8,
    Format.Q5_1: 9,
    Format.Q2_K: 10,
    Format.Q3_K: 12,
    Format.Q4_K: 15,
    Format.Q5_K: 17,
    Format.Q6_K: 18,
    Format.IQ4_NL: 25,
    Format.IQ4_XS: 30,
    Format.BF16: 32,
    Format.MXFP4: 38,
}
_GUESSED: Final = 1024  # "not given in the file", for prevailing formats without one


def carried_metadata(
    header: ModelHeader,
    plan: Sequence[PlannedTensor],
    vocabulary: Vocabulary | None,
    template: str,
) -> dict[str, MetadataValue]:
    """Return the new file's metadata.

    `vocabulary` and `template` are given where they are no metadata yet: of a folder.
    """
    kept = {
        key: value
        for key, value in header.metadata.items()
        if not key.startswith("split.") and key != "general.alignment"
    }
    if vocabulary is not None:
        kept |= vocabulary_metadata(vocabulary)
    if template:
        kept[_TEMPLATE] = template
    kept["general.alignment"] = ALIGNMENT
    kept["general.quantization_version"] = _QUANTIZATION_VERSION
    kept["general.file_type"] = _file_type(plan)
    return kept


def _file_type(plan: Sequence[PlannedTensor]) -> int:
    sizes: Counter[Format] = Counter()
    for tensor in plan:
        sizes[tensor.format] += tensor.n_bytes
    if not sizes:
        return _GUESSED
    return _FILE_TYPES.get(max(sizes, key=lambda each: sizes[each]), _GUESSED)
