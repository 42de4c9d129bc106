"""The manifest of the served model, kept in the data folder between starts.

Hashing every expert reads the whole file, seconds to minutes; so the result is kept
under the model's fingerprint, with the stamp (sizes and times of change) that the files
had. The file is

    "PMMANI3" and a zero byte | stamp 32 B | the manifest's canonical bytes
    | SHA-256 of all before

written beside and renamed. What is read back is believed only if it is whole, the stamp
is the files', the manifest is canonical, all it says but the digests equals what the
model's header says, and some experts, hashed again, have the digests it names. Anything
else is ignored and hashed anew: one wrong digest, and no worker could ever hold that
expert. Blocking; call it from a worker thread.
"""

import hashlib
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mobile_worker.shards.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestError,
    parse_manifest,
)
from p2pmoe.weights.experts import expert_ranges, read_expert
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import ModelFile

__all__ = ["stored_manifest"]

log = logging.getLogger("p2pmoe.backbone")

_MAGIC: Final = b"PMMANI3\0"
_STAMP_BYTES: Final = 32
_SUM_BYTES: Final = 32
_MAX_BYTES: Final = len(_MAGIC) + _STAMP_BYTES + MAX_MANIFEST_BYTES + _SUM_BYTES
_N_CHECKED: Final = 8
_TOLD_EVERY_S: Final = 10.0


def stored_manifest(
    folder: Path, model_file: ModelFile, options: ManifestOptions
) -> Manifest:
    """Return the model's manifest, from `folder` or hashed and put there.

    A folder that cannot be written costs only the next start's time; raises as
    `build_manifest`.
    """
    path = folder / f"manifest-{model_file.fingerprint().hex()[:16]}.bin"
    known = _recall(path, model_file, options)
    if known is not None:
        return known
    stamp = _stamp(model_file)
    manifest = build_manifest(model_file, options, progress=_Progress())
    try:
        beside = path.with_suffix(".part")
        record = _MAGIC + stamp + manifest.encode()
        beside.write_bytes(record + hashlib.sha256(record).digest())
        beside.replace(path)
    except OSError as error:
        log.warning("cannot keep the model's manifest: %s", error)
    return manifest


class _Progress:
    """Says how far hashing has come: at the start, now and then, at the end."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._told_at = monotonic()

    def __call__(self, done: int, total: int) -> None:
        if done == 1:
            log.info("hashing %d experts, once for this model file", total)
        now = self._monotonic()
        if done == total or now - self._told_at >= _TOLD_EVERY_S:
            self._told_at = now
            log.info("hashed %d of %d experts", done, total)


def _recall(
    path: Path, model_file: ModelFile, options: ManifestOptions
) -> Manifest | None:
    try:
        if path.stat().st_size > _MAX_BYTES:
            return None
        raw = path.read_bytes()
    except OSError:
        return None
    record, checksum = raw[:-_SUM_BYTES], raw[-_SUM_BYTES:]
    if hashlib.sha256(record).digest() != checksum:
        return None
    if not record.startswith(_MAGIC + _stamp(model_file)):
        return None
    try:
        manifest = parse_manifest(record[len(_MAGIC) + _STAMP_BYTES :])
    except ManifestError:
        return None
    return manifest if _is_of(manifest, model_file, options) else None


def _is_of(manifest: Manifest, model_file: ModelFile, options: ManifestOptions) -> bool:
    """Say whether a manifest is this file's."""
    known = {entry.expert: entry.digest for entry in manifest.experts}
    expected = build_manifest(model_file, options, digests=known)
    if manifest != expected:
        return False
    step = max(1, len(manifest.experts) // _N_CHECKED)
    for entry in manifest.experts[::step]:
        ranges = expert_ranges(model_file, entry.expert, half_order=options.half_order)
        if hashlib.sha256(read_expert(model_file, ranges)).digest() != entry.digest:
            return False
    return True


def _stamp(model_file: ModelFile) -> bytes:
    return hashlib.sha256(model_file.stamp()).digest()
