"""A model whose files can be had by HTTP: the manifest that `serve --manifest` takes.

`public_manifest` reads a whole GGUF model, experts and base, and names for each of its
files the addresses that were given. A source is

    https://HOST/FOLDER/          the files lie there, by their own names
    https://HOST/.../FILE.gguf    the one file, or the first part of a set: the others
                                  lie beside it, by the names of their parts

Nothing is asked of the addresses: whether the bytes there are these, the hashes say.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from mobile_worker.shards.addresses import AddressRefused, check_address
from mobile_worker.shards.manifest import Manifest
from mobile_worker.shards.model_files import ModelFilePart, file_starts
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.base_pieces import base_spans, hash_base
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.find import (
    SafetensorsFolder,
    find_model,
    parse_part_name,
    part_name,
)
from p2pmoe.weights.gguf_set import open_gguf
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import ModelFile

__all__ = ["addresses_of", "open_public", "public_manifest"]

_ADVICE = "give the https address of the file, of the first part of a set, or FOLDER/"


def addresses_of(names: Sequence[str], sources: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the addresses of each file, in the order of the sources.

    Raises:
        ConfigurationError: a source may not be asked, or does not say where the other
            parts of a set lie.
    """
    if not sources:
        raise ConfigurationError("no --source is given", advice=_ADVICE)
    found: list[list[str]] = [[] for _ in names]
    for source in sources:
        try:
            check_address(source)
        except AddressRefused as error:
            raise ConfigurationError(f"--source {error}", advice=_ADVICE) from error
        for own, address in zip(found, _of_source(names, source), strict=True):
            own.append(address)
    return [tuple(own) for own in found]


def _of_source(names: Sequence[str], source: str) -> list[str]:
    parts = urlsplit(source)
    folder, _, last = parts.path.rpartition("/")
    if last and len(names) == 1:
        return [source]
    first = parse_part_name(Path(unquote(last))) if last else None
    if last and (first is None or (first.number, first.count) != (1, len(names))):
        raise ConfigurationError(
            f"--source {source[:80]!r} does not name the first of {len(names)} parts",
            advice=_ADVICE,
        )
    own = names if first is None else _names(Path(unquote(last)), len(names))
    return [parts._replace(path=f"{folder}/{quote(name)}").geturl() for name in own]


def open_public(
    path: Path, sources: Sequence[str]
) -> tuple[ModelFile, tuple[ModelFilePart, ...]]:
    """Open a GGUF model, and return its files with their addresses.

    Raises:
        ConfigurationError: as `addresses_of`.
        UnsupportedModel: a safetensors folder, whose bytes are computed here.
        ModelFileError: as `open_model`.
    """
    found = find_model(path)
    if isinstance(found, SafetensorsFolder):
        reason = "is a safetensors folder: only GGUF files can be read in pieces"
        advice = "convert it first: p2pmoe convert FOLDER OUT.gguf"
        raise UnsupportedModel(path, reason, advice=advice)
    model = open_gguf(found.path)
    opened = ModelFile(model.path, model.source, model.header)
    try:
        starts = (*model.source.starts(), model.source.n_bytes)
        sizes = [end - start for start, end in pairwise(starts)]
        names = _names(model.path, len(sizes))
        addresses = addresses_of(names, sources)
    except BaseException:
        opened.close()
        raise
    files = tuple(
        ModelFilePart(n_bytes=n_bytes, urls=urls)
        for n_bytes, urls in zip(sizes, addresses, strict=True)
    )
    return opened, files


def _names(first: Path, n_files: int) -> list[str]:
    """Return the names of all files of a model, from that of the first."""
    part = parse_part_name(first)
    if n_files == 1 or part is None:
        return [first.name]
    return [part_name(part.stem, number + 1, n_files) for number in range(n_files)]


def public_manifest(
    model: ModelFile,
    files: tuple[ModelFilePart, ...],
    tokenizer_digest: bytes,
    progress: Callable[[str, float], None] = lambda _, __: None,
) -> Manifest:
    """Read a model that `open_public` opened, and return its manifest.

    `progress` is told what is done, and its share. Raises as `build_manifest`.
    """
    spans = base_spans(model, file_starts(files))
    base = hash_base(
        model, spans, lambda done, total: progress("hashing the base", done / total)
    )
    options = ManifestOptions(files=files, base=base, tokenizer_digest=tokenizer_digest)
    return build_manifest(
        model,
        options,
        progress=lambda done, total: progress("hashing the experts", done / total),
    )
