"""A GGUF model of one file or of several: one header, one address space.

The first part of a split set carries the metadata; every part carries `split.no`
(from 0), `split.count`, `split.tensors.count` (of all parts) and tensors of its own.
The parts lie end to end, so a tensor's offset is its part's start plus its own. All
parts must be there, in one folder, named NAME-00001-of-00003.gguf; each is checked
like a file of its own, and then that they are of one set: count, numbers, architecture
and its keys, no tensor twice, as many tensors as they say.

A file whose `split.count` is missing, 0 or 1 is a whole model, whatever its name.
"""

import hashlib
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from p2pmoe.weights.byte_source import FileBytes, OpenFile
from p2pmoe.weights.cursor import Cursor
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel, listed
from p2pmoe.weights.find import parse_part_name, part_name
from p2pmoe.weights.gguf import Header, Tensor, parse_header
from p2pmoe.weights.metadata import Metadata

__all__ = ["GgufModel", "HeldHeader", "open_gguf", "read_gguf", "read_held"]

_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_TYPE, _ARCHITECTURE = "general.type", "general.architecture"
_NAMES_AS_THEY_WERE = "put parts of one set together, with the names that they had"
_PROJECTOR = "clip"
_MAX_PARTS = 1024


@dataclass(frozen=True, slots=True)
class GgufModel:
    """An open model; `path` is its file, or the first part of its set."""

    path: Path
    source: FileBytes
    header: Header


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldHeader:
    """Where the header of one file lies in another, open one.

    `n_bytes` is the size of the whole file; its first `held` bytes are in `fd`, from
    `start` on. `path` is for messages.
    """

    path: Path
    n_bytes: int
    fd: int
    start: int
    held: int


@dataclass(frozen=True, slots=True)
class _Part:
    path: Path
    n_bytes: int
    header: Header
    metadata: Metadata


def open_gguf(path: Path, *, is_whole: bool = True) -> GgufModel:
    """Open a GGUF file, or the set that it is a part of, and check all headers.

    If the model `is_whole`, the tensors' bytes must be there.

    Raises:
        ModelFileTruncated: "needs N bytes, has M": a part ends before its tensors do.
        UnsupportedModel: Another version or byte order, or no language model.
        ModelFileError: A file cannot be opened or is no valid GGUF file, or parts are
            missing or of another set.
    """
    with ExitStack() as opened:

        def open_part(place: Path) -> _Part:
            file = OpenFile(place)
            opened.callback(file.close)
            cursor = Cursor(place, file.fd, file.n_bytes)
            header = parse_header(cursor, is_whole=is_whole)
            files[place] = file
            return _Part(place, file.n_bytes, header, Metadata(place, header.metadata))

        files: dict[Path, OpenFile] = {}
        named = open_part(path)
        paths = _paths_of_set(named)
        parts = [named if place == path else open_part(place) for place in paths]
        header = _checked(parts)
        source = FileBytes([files[place] for place in paths])
        opened.pop_all()
    return GgufModel(paths[0], source, header)


def read_held(headers: Sequence[HeldHeader]) -> Header:
    """Return the header of a model whose files' headers alone are here, in order.

    Raises:
        UnsupportedModel, ModelFileError: as `open_gguf`; or a header is not all here.
    """
    parts = []
    for one in headers:
        cursor = Cursor(one.path, one.fd, one.n_bytes, start=one.start, held=one.held)
        header = parse_header(cursor)
        metadata = Metadata(one.path, header.metadata)
        parts.append(_Part(one.path, one.n_bytes, header, metadata))
    count = parts[0].metadata.integer(_COUNT, 1, high=_MAX_PARTS)
    if max(count, 1) != len(parts):
        reason = f"is one of {count} parts, and {len(parts)} are named"
        raise ModelFileError(parts[0].path, reason, field=f"key {_COUNT!r}")
    return _checked(parts)


def _checked(parts: list[_Part]) -> Header:
    """Return one header for the parts of a set, all of one model."""
    if len(parts) > 1:
        _check_set(parts)
    _check_type(parts[0])
    return _joined(parts) if len(parts) > 1 else parts[0].header


def read_gguf(path: Path) -> tuple[Path, Header, int]:
    """Return the path, header and present bytes of a model; raises as `open_gguf`."""
    model = open_gguf(path, is_whole=False)
    model.source.close()
    return model.path, model.header, model.source.n_bytes


def _paths_of_set(named: _Part) -> list[Path]:
    """Return the paths of all parts, in order; of a whole file, its own."""
    path = named.path
    count = named.metadata.integer(_COUNT, 1, high=_MAX_PARTS)
    if count <= 1:
        return [path]
    name = parse_part_name(path)
    if name is None:
        reason = f"is one of {count} parts, and its name does not say which"
        field = f"key {_COUNT!r}"
        own = named.metadata.integer(_NUMBER, 0, high=count - 1) + 1
        advice = f"name it like {part_name('MODEL', own, count)}, as it was"
        raise ModelFileError(path, reason, field=field, advice=advice)
    if name.count != count:
        reason = f"says {count} parts, its name says {name.count}"
        raise ModelFileError(path, reason, field=f"key {_COUNT!r}")
    numbers = range(1, count + 1)
    names = [part_name(name.stem, number, count) for number in numbers]
    missing = [other for other in names if not (path.parent / other).is_file()]
    if missing:
        reason = f"{len(missing)} of its {count} parts are missing: {listed(missing)}"
        advice = "put all parts into one folder, with the names that they had"
        raise ModelFileError(path, reason, advice=advice)
    return [path.parent / other for other in names]


def _check_set(parts: list[_Part]) -> None:
    """Refuse parts that are not of one set."""
    first = parts[0].metadata
    n_tensors = first.integer(_TENSORS)
    architecture = first.text(_ARCHITECTURE, "")
    for number, part in enumerate(parts):
        said = part.metadata
        pairs = {
            _NUMBER: (said.integer(_NUMBER), number),
            _COUNT: (said.integer(_COUNT), len(parts)),
            _TENSORS: (said.integer(_TENSORS), n_tensors),
            _ARCHITECTURE: (said.text(_ARCHITECTURE, architecture), architecture),
        }
        for key, (value, wanted) in pairs.items():
            if value != wanted:
                reason = f"{value!r} is not {wanted!r}: no part of this set"
                raise ModelFileError(
                    part.path, reason, field=f"key {key!r}", advice=_NAMES_AS_THEY_WERE
                )
        for key in said.keys() & first.keys():
            if key.startswith(f"{architecture}.") and said[key] != first[key]:
                reason = "is not what the first part says: no part of this set"
                raise ModelFileError(part.path, reason, field=f"key {key!r}")
    _check_tensors(parts, n_tensors)


def _check_tensors(parts: list[_Part], n_tensors: int) -> None:
    holders: dict[str, _Part] = {}
    for part in parts:
        for name in part.header.tensors:
            holder = holders.setdefault(name, part)
            if holder is not part:
                reason = f"is in {holder.path.name} as well"
                raise ModelFileError(part.path, reason, tensor=name)
    if len(holders) != n_tensors:
        reason = f"the parts hold {len(holders)} tensors, not {n_tensors}"
        raise ModelFileError(parts[0].path, reason, field=f"key {_TENSORS!r}")


def _check_type(part: _Part) -> None:
    """Refuse what hubs keep beside models: projectors, adapters, matrices."""
    advice = "name the model's own file, which lies beside it"
    kind = part.metadata.text(_TYPE, "model")
    if kind != "model":
        reason = f"is no model but of type {kind[:40]!r}"
        field = f"key {_TYPE!r}"
        raise UnsupportedModel(part.path, reason, field=field, advice=advice)
    if part.metadata.text(_ARCHITECTURE, "") == _PROJECTOR:  # of years without a type
        reason = "is the vision or audio part of a model (mmproj)"
        field = f"key {_ARCHITECTURE!r}"
        raise UnsupportedModel(part.path, reason, field=field, advice=advice)


def _joined(parts: list[_Part]) -> Header:
    """Return one header for parts that lie end to end.

    A part counts with its file's size, or, where only its header is there, with the
    bytes that its tensors need.
    """
    sizes = [max(part.n_bytes, part.header.n_bytes) for part in parts]
    starts = [0, *accumulate(sizes)][:-1]
    tensors: dict[str, Tensor] = {}
    for part, start in zip(parts, starts, strict=True):
        for name, tensor in part.header.tensors.items():
            tensors[name] = replace(tensor, offset=start + tensor.offset)
    digests = b"".join(part.header.fingerprint for part in parts)
    metadata = parts[0].header.metadata.items()
    return Header(
        metadata={k: v for k, v in metadata if not k.startswith("split.")},
        tensors=tensors,
        n_bytes=starts[-1] + parts[-1].header.n_bytes,
        fingerprint=hashlib.sha256(digests).digest(),
    )
