"""A small model that can be had by HTTP, and a server of its files."""

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from mobile_worker.shards.http_source import HttpSettings
from mobile_worker.shards.manifest import Manifest
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.public_files import open_public, public_manifest
from tests.support.range_server import RangeServer

__all__ = ["FAST", "MANIFEST_URL", "PublicModel", "public_model"]

MANIFEST_URL = "https://a.example/m.manifest"
FAST = HttpSettings(first_pause_s=0.0, max_pause_s=0.0, max_failures=2)


@dataclass(frozen=True, slots=True)
class PublicModel:
    """A model on hosts a and b; `server` has its file and its manifest."""

    path: Path
    manifest: Manifest
    server: RangeServer

    @property
    def digest(self) -> str:
        """SHA-256 of the manifest, in hex."""
        return hashlib.sha256(self.manifest.encode()).hexdigest()

    def changed(self, **fields: object) -> "PublicModel":
        """Return the same with another manifest."""
        manifest = replace(self.manifest, **fields)  # type: ignore[arg-type]
        files = {**self.server.files, "m.manifest": manifest.encode()}
        return PublicModel(self.path, manifest, RangeServer(files))


def public_model(path: Path, *, with_tokenizer: bool = True) -> PublicModel:
    """Return a model file as one that can be had."""
    sources = ["https://a.example/", "https://b.example/"]
    model, files = open_public(path, sources)
    with model:
        digest = load_tokenizer(model).digest if with_tokenizer else b""
        manifest = public_manifest(model, files, digest)
    served = {path.name: path.read_bytes(), "m.manifest": manifest.encode()}
    return PublicModel(path, manifest, RangeServer(served))
