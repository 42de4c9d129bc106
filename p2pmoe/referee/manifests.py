"""The manifest that a voucher names: read from a file, or built from the model.

Contract: what comes back has exactly the wanted hash. A backbone that serves a model
file of its own names the file's experts and its tokenizer; one that was started by a
manifest names addresses too, which the model file does not say: then the manifest
itself must be given. Building reads every expert once. Blocking.
"""

from collections.abc import Callable
from pathlib import Path

from mobile_worker.shards.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestError,
    manifest_hash,
    parse_manifest,
)
from p2pmoe.errors import ConfigurationError
from p2pmoe.text.errors import TokenizerError
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import ModelFile

__all__ = ["built_manifest", "read_manifest"]


def read_manifest(path: Path, wanted: bytes) -> Manifest:
    """Read the manifest file that `p2pmoe models manifest` writes.

    Raises:
        ConfigurationError: it cannot be read, is none, or has another hash.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_MANIFEST_BYTES + 1)
        manifest = parse_manifest(raw)
    except OSError as exc:
        raise ConfigurationError(f"{path}: {(exc.strerror or '').lower()}") from exc
    except ManifestError as exc:
        raise ConfigurationError(f"{path} is no manifest: {exc}") from exc
    if manifest_hash(manifest) != wanted:
        raise _another(manifest, wanted)
    return manifest


def built_manifest(
    model: ModelFile, wanted: bytes, told: Callable[[str, float], None]
) -> Manifest:
    """Build the manifest of a model file; `told` hears of the progress.

    Raises:
        ConfigurationError: it has another hash than the voucher names.
        UnsupportedModel, ModelFileError, ManifestError: see `build_manifest`.
    """
    manifest = build_manifest(
        model,
        progress=lambda done, total: told("hashing the experts", done / total),
    )
    if manifest_hash(manifest) == wanted:
        return manifest
    known = {entry.expert: entry.digest for entry in manifest.experts}
    try:
        digest = load_tokenizer(model).digest
    except TokenizerError as exc:
        raise _another(manifest, wanted) from exc
    options = ManifestOptions(tokenizer_digest=digest)
    manifest = build_manifest(model, options, digests=known)
    if manifest_hash(manifest) != wanted:
        raise _another(manifest, wanted)
    return manifest


def _another(manifest: Manifest, wanted: bytes) -> ConfigurationError:
    return ConfigurationError(
        f"the manifest of this model is {manifest_hash(manifest).hex()[:16]}, the "
        f"voucher names {wanted.hex()[:16]}",
        advice="give the model that was served, and its manifest with --manifest",
    )
