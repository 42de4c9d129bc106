"""The pocket model with another chat template: the same weights, byte for byte."""

import struct
from pathlib import Path

from tests.support.gguf_writer import pack_text

__all__ = ["with_template"]

_KEY = pack_text("tokenizer.chat_template") + struct.pack("<I", 8)
_ALIGNMENT = 32


def with_template(model: Path, template: str, target: Path) -> Path:
    """Write a copy of a GGUF file with this template; return `target`.

    The header grows by a multiple of the alignment, so that tensors, whose places
    count from its end, stay where they are.
    """
    content = model.read_bytes()
    at = content.index(_KEY) + len(_KEY)
    (n_old,) = struct.unpack_from("<Q", content, at)
    rest = content[at + 8 + n_old :]
    n_new = len(template.encode()) + 4
    n_new += (n_old - n_new) % _ALIGNMENT
    comment = "{#" + "x" * (n_new - 4 - len(template.encode())) + "#}"
    target.write_bytes(content[:at] + pack_text(comment + template) + rest)
    return target
