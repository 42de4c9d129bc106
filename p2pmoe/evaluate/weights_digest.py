"""The digest of all bytes of a model, and where it is remembered between starts.

A header's fingerprint does not change when a weight does, so that only reading tells
whether two files are the same model. That takes seconds for a small model and an hour
for the largest; so what was read once is kept in a small file, with the stamp (sizes
and times of change) that the model's files had. `serve` reads small models itself, and
believes what is kept of large ones.

The file is JSON, one line, written beside and renamed; one that cannot be read, or
that is of other files, is as none.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from p2pmoe.evaluate.reading import Misread, Record, parse_object
from p2pmoe.weights.model_file import ModelFile

__all__ = ["AT_ONCE_BYTES", "known_weights", "read_weights", "remember_weights"]

log = logging.getLogger("p2pmoe.evaluate")

AT_ONCE_BYTES: Final = 256 << 20  # half a second of hashing
_PIECE_BYTES: Final = 4 << 20
_MAX_FILE_BYTES: Final = 4096


def read_weights(
    model: ModelFile, tell: Callable[[float], None] = lambda _: None
) -> str:
    """Return SHA-256 over the model's address space; `tell` gets the share done.

    For one GGUF file it is what `sha256sum` prints. Raises ModelFileError.
    """
    digest = hashlib.sha256()
    place = memoryview(bytearray(_PIECE_BYTES))
    for offset in range(0, model.n_bytes, _PIECE_BYTES):
        piece = place[: min(_PIECE_BYTES, model.n_bytes - offset)]
        model.read_into(offset, piece)
        digest.update(piece)
        tell((offset + piece.nbytes) / model.n_bytes)
    return digest.hexdigest()


def known_weights(model: ModelFile, folder: Path) -> str:
    """Return the digest as `folder` remembers it, "" if it does not.

    Raises ModelFileError if the files cannot be looked at any more.
    """
    try:
        path = _path(model, folder)
        if path.stat().st_size > _MAX_FILE_BYTES:
            return ""
        record = Record(parse_object(path.read_text(encoding="utf-8")))
        stamp, digest = record.text("stamp", 64), record.text("sha256", 64)
    except (OSError, UnicodeDecodeError, Misread):
        return ""
    is_digest = len(digest) == 64 and not set(digest) - set("0123456789abcdef")
    return digest if is_digest and stamp == _stamp(model) else ""


def remember_weights(model: ModelFile, folder: Path, digest: str) -> None:
    """Keep the digest in `folder`; a folder that cannot be written is logged."""
    path = _path(model, folder)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    text = json.dumps({"stamp": _stamp(model), "sha256": digest})
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.write_text(text + "\n", encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        log.warning("cannot keep the digest of the model's weights: %s", error)


def _path(model: ModelFile, folder: Path) -> Path:
    return folder / f"weights-{model.fingerprint().hex()[:16]}.json"


def _stamp(model: ModelFile) -> str:
    return hashlib.sha256(model.stamp()).hexdigest()
