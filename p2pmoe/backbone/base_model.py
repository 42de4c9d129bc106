"""Opens a model by the address of its manifest: manifest and base, kept in a folder.

    HASH.manifest   the manifest, HASH the first half of its SHA-256
    HASH.base       the base, whole; HASH.base.part while it is fetched
    ADDRESS.last    the hash of the manifest that an address gave last

An address may end in #SHA256 of the manifest. Then it is asked only once, and what it
gives must have this hash; without it the address is asked at each start, and what it
gave last serves where it does not answer. Nothing here is an expert's. Blocking; call
it from a worker thread.
"""

import hashlib
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import trio

from mobile_worker.shards.addresses import AddressRefused, check_address
from mobile_worker.shards.bounds import ManifestError
from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import (
    HttpSettings,
    HttpSource,
    open_client,
    read_small,
)
from mobile_worker.shards.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    manifest_hash,
    parse_manifest,
)
from p2pmoe.backbone.base_fetch import Told, fetch_base
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.base_file import open_base
from p2pmoe.weights.errors import ModelUnavailable
from p2pmoe.weights.model_file import ModelFile

__all__ = ["BaseModel", "ManifestAddress", "open_by_manifest", "parse_address"]

log = logging.getLogger("p2pmoe.backbone")

_HEX = re.compile(r"[0-9a-f]{64}")
_ADVICE = "for example https://HOST/MODEL.manifest#SHA256"
_N_NAME = 32

OpenClient = Callable[[HttpSettings], httpx.AsyncClient]


@dataclass(frozen=True, slots=True)
class ManifestAddress:
    """Where a manifest is, and its SHA-256 if that is known."""

    url: str
    digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A model whose experts are elsewhere."""

    model_file: ModelFile
    manifest: Manifest


def parse_address(text: str) -> ManifestAddress:
    """Read `URL[#SHA256]`; ConfigurationError."""
    url, mark, digest = text.partition("#")
    try:
        check_address(url)
    except AddressRefused as error:
        raise ConfigurationError(f"--manifest {error}", advice=_ADVICE) from error
    if not mark:
        return ManifestAddress(url)
    if not _HEX.fullmatch(digest.lower()):
        reason = f"--manifest: {digest[:80]!r} is no SHA-256 in 64 hex digits"
        raise ConfigurationError(reason, advice=_ADVICE)
    return ManifestAddress(url, bytes.fromhex(digest))


def open_by_manifest(
    text: str,
    folder: Path,
    told: Told = lambda _, __: None,
    *,
    settings: HttpSettings | None = None,
    open_client: OpenClient = open_client,
) -> BaseModel:
    """Fetch what is missing of a model's base into `folder`, and open it.

    Args:
        text: the manifest's address, `URL[#SHA256]`.
        folder: made if it is not there.
        told: is told what is being done, and its share done.
        settings: how hard to try.
        open_client: opens the client to ask with.

    Raises:
        ConfigurationError: no address, or no room on the disk.
        ModelUnavailable: manifest or base cannot be had, or are not what they ought.
        ModelFileError: the manifest is not of the model whose header it names.
        OSError: the folder cannot be written.
    """
    address = parse_address(text)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = settings or HttpSettings()
    manifest = trio.run(_fetch, address, folder, told, settings, open_client)
    path = folder / f"{_name(manifest_hash(manifest))}.base"
    return BaseModel(open_base(path, manifest), manifest)


async def _fetch(
    address: ManifestAddress,
    folder: Path,
    told: Told,
    settings: HttpSettings,
    open_client: OpenClient,
) -> Manifest:
    async with open_client(settings) as client:
        try:
            manifest = await _manifest(client, address, folder, settings)
            _check_has_base(manifest)
            source = HttpSource(client, manifest.files, settings)
            path = folder / f"{_name(manifest_hash(manifest))}.base"
            part = path.with_suffix(".base.part")
            if path.exists():
                path.rename(part)  # checked like any other
            await fetch_base(part, manifest, source, told)
            part.rename(path)
        except ShardUnavailable as error:
            raise ModelUnavailable(f"the model cannot be fetched: {error}") from error
        except ManifestError as error:
            raise ModelUnavailable(f"the manifest is refused: {error}") from error
    return manifest


def _check_has_base(manifest: Manifest) -> None:
    if not (manifest.files and manifest.base and manifest.experts):
        raise ManifestError("it does not say where the model's bytes can be had")


async def _manifest(
    client: httpx.AsyncClient,
    address: ManifestAddress,
    folder: Path,
    settings: HttpSettings,
) -> Manifest:
    """Return the manifest, kept or fetched; ShardUnavailable, ManifestError."""
    if address.digest is not None:
        kept = _kept(folder, address.digest)
        if kept is not None:
            return parse_manifest(kept)
    last = folder / f"{_name(hashlib.sha256(address.url.encode()).digest())}.last"
    try:
        blob = await read_small(client, address.url, MAX_MANIFEST_BYTES, settings)
    except ShardUnavailable as error:
        known = None if address.digest is not None else _last(last, folder)
        if known is None:
            raise
        log.warning("%s; the manifest that it gave last is used", error)
        return parse_manifest(known)
    digest = hashlib.sha256(blob).digest()
    if address.digest not in (None, digest):
        reason = f"what the address gives has the hash {digest.hex()[:16]}..."
        raise ManifestError(f"{reason}, not the one asked for")
    manifest = parse_manifest(blob)
    _keep(folder / f"{_name(digest)}.manifest", blob)
    _keep(last, digest)
    return manifest


def _kept(folder: Path, digest: bytes) -> bytes | None:
    path = folder / f"{_name(digest)}.manifest"
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            return None
        blob = path.read_bytes()
    except OSError:
        return None
    return blob if hashlib.sha256(blob).digest() == digest else None


def _last(path: Path, folder: Path) -> bytes | None:
    try:
        digest = path.read_bytes()[:32]
    except OSError:
        return None
    return _kept(folder, digest)


def _keep(path: Path, body: bytes) -> None:
    beside = path.with_suffix(path.suffix + ".part")
    beside.write_bytes(body)
    beside.replace(path)


def _name(digest: bytes) -> str:
    return digest.hex()[:_N_NAME]
