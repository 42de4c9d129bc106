"""A model without its experts, in one file: the base pieces of a manifest, end to end.

The file has no format of its own: the manifest says which piece lies where, and what
its SHA-256 is. `BaseFile` writes pieces, in any order, each checked first, and finds
out which are there; `open_base` opens a whole one as a model whose address space has
holes. To read a hole is an error; the experts' bytes are nowhere in the file.

A model is opened only if its own header says what the manifest does: all but the
hashes of experts, which nobody can check before they come, is compared.
"""

import errno
import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Self

from mobile_worker.shards.files import read_at, write_at
from mobile_worker.shards.manifest import Manifest
from mobile_worker.shards.model_files import file_starts
from p2pmoe.weights.base_pieces import base_spans
from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError, NotHere
from p2pmoe.weights.gguf_set import HeldHeader, read_held
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import ModelFile

__all__ = ["BaseBytes", "BaseFile", "open_base"]

_ADVICE = "make the manifest anew with `p2pmoe models manifest`"


class BaseFile:
    """The pieces of a manifest's base that are on the disk, while it is completed."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        """Open or make the file at `path`, of exactly the base's size; OSError."""
        self.pieces = manifest.base
        sizes = [piece.n_bytes for piece in manifest.base]
        self._places = (0, *accumulate(sizes))
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.ftruncate(self._fd, self._places[-1])
        except OSError:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole base."""
        return self._places[-1]

    def missing(
        self, progress: Callable[[int, int], None] = lambda _, __: None
    ) -> list[int]:
        """Return the numbers of the pieces that are not there, by hash; OSError.

        `progress` is called with (bytes looked at, bytes in all).
        """
        absent = []
        for number in range(len(self.pieces)):
            if not self._holds(number):
                absent.append(number)
            progress(self._places[number + 1], self._places[-1])
        return absent

    def _holds(self, number: int) -> bool:
        piece, place = self.pieces[number], self._places[number]
        if _is_hole(self._fd, place, piece.n_bytes):
            return False
        held = read_at(self._fd, place, piece.n_bytes)
        return hashlib.sha256(held).digest() == piece.digest

    def put(self, number: int, body: bytes) -> bool:
        """Write a piece if it is what the manifest names; say so; OSError."""
        if hashlib.sha256(body).digest() != self.pieces[number].digest:
            return False
        write_at(self._fd, self._places[number], body)
        return True

    def sync(self) -> None:
        """Have all that was put on the disk; OSError."""
        os.fsync(self._fd)


def _is_hole(fd: int, place: int, n_bytes: int) -> bool:
    """Return whether nothing was written there yet, where the system can tell.

    A manifest may name a base of hundreds of GB; zeros of a new file are not hashed.
    """
    try:
        return os.lseek(fd, place, os.SEEK_DATA) >= place + n_bytes
    except AttributeError:
        return False
    except OSError as error:
        return error.errno == errno.ENXIO  # no data from there to the end


class BaseBytes:
    """The address space of a model of which only the base is here; a `ByteSource`."""

    def __init__(self, file: OpenFile, manifest: Manifest, name: Path) -> None:
        """Take over `file`, which holds the base; messages call the model `name`."""
        self._file = file
        self._name = name
        self._offsets: list[int] = []
        self._ends: list[int] = []
        self._places: list[int] = []  # of each run of pieces, in the file
        place = 0
        for piece in manifest.base:
            if self._ends and self._ends[-1] == piece.offset:
                self._ends[-1] = piece.end
            else:
                self._offsets.append(piece.offset)
                self._ends.append(piece.end)
                self._places.append(place)
            place += piece.n_bytes
        self._n_bytes = file_starts(manifest.files)[-1]

    @property
    def n_bytes(self) -> int:
        """Bytes of the whole address space, holes included."""
        return self._n_bytes

    def held_from(self, offset: int) -> tuple[int, int]:
        """Return where in the file the byte at `offset` lies, and how many follow.

        Raises:
            NotHere: it is in a hole.
        """
        number = bisect_right(self._offsets, offset) - 1
        if number < 0 or offset >= self._ends[number]:
            reason = f"what lies at {offset} is not on this machine"
            raise NotHere(self._name, reason)
        place = self._places[number] + offset - self._offsets[number]
        return place, self._ends[number] - offset

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill `place` with the bytes at `offset`; see `ByteSource`.

        Raises:
            NotHere: some of it is in a hole.
        """
        filled = 0
        while filled < place.nbytes:
            at, held = self.held_from(offset + filled)
            n_bytes = min(held, place.nbytes - filled)
            self._file.read_into(at, place[filled : filled + n_bytes])
            filled += n_bytes

    def stamp(self) -> bytes:
        """Return the file's size and time of change; ModelFileError."""
        return self._file.stamp()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def open_base(path: Path, manifest: Manifest) -> ModelFile:
    """Open a whole base file as a model.

    Raises:
        ModelFileError: the file cannot be opened, its header is refused, or it is not
            the one that the manifest describes.
    """
    name = Path(f"{manifest.name}.gguf")
    with ExitStack() as refused:
        file = OpenFile(path)
        refused.callback(file.close)
        source = BaseBytes(file, manifest, name)
        if file.n_bytes != sum(piece.n_bytes for piece in manifest.base):
            raise ModelFileError(path, f"has {file.n_bytes} bytes, not the base's")
        starts = file_starts(manifest.files)
        headers = []
        for start, part in zip(starts, manifest.files, strict=False):
            at, held = source.held_from(start)
            headers.append(
                HeldHeader(
                    path=name, n_bytes=part.n_bytes, fd=file.fd, start=at, held=held
                )
            )
        model = ModelFile(name, source, read_held(headers))
        refused.pop_all()
    try:
        _check(model, source, manifest)
    except BaseException:
        model.close()
        raise
    return model


def _check(model: ModelFile, source: BaseBytes, manifest: Manifest) -> None:
    """Refuse a manifest that is not of this header, or lacks some of the base."""
    options = ManifestOptions(
        files=manifest.files,
        base=manifest.base,
        tokenizer_digest=manifest.tokenizer_digest,
    )
    known = {entry.expert: entry.digest for entry in manifest.experts}
    try:
        expected = build_manifest(model, options, digests=known)
    except NotHere as exc:
        reason = "the model has an expert that the manifest does not name"
        raise ModelFileError(model.path, reason, advice=_ADVICE) from exc
    if replace(expected, name=manifest.name) != manifest:
        reason = "the manifest is not of this model: its header says otherwise"
        raise ModelFileError(model.path, reason, advice=_ADVICE)
    for offset, n_bytes in base_spans(model, file_starts(manifest.files)):
        if source.held_from(offset)[1] < n_bytes:
            reason = f"the manifest names no base for what lies at {offset}"
            raise ModelFileError(model.path, reason, advice=_ADVICE)
