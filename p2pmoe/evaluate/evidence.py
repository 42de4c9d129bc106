"""Whether what is about to be served has been evaluated; said once, at the start.

A configuration without a run on record is served with one line of warning, or not at
all where the operator requires one. Runs lie in the folder `evaluations` below the
backbone's data folder. Blocking: a small model whose weights are not known is read.
"""

import hashlib
import logging
from pathlib import Path

from mobile_worker.shards.manifest import Manifest
from p2pmoe.config import ServeConfig
from p2pmoe.evaluate.configuration import Configuration, configuration_of
from p2pmoe.evaluate.errors import NotEvaluated
from p2pmoe.evaluate.store import FOLDER_NAME, is_evaluated
from p2pmoe.evaluate.weights_digest import (
    AT_ONCE_BYTES,
    known_weights,
    read_weights,
    remember_weights,
)
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.weights.model_file import ModelFile

__all__ = ["checked_configuration"]

log = logging.getLogger("p2pmoe.evaluate")


def checked_configuration(
    config: ServeConfig,
    model: ModelFile,
    tokenizer: Tokenizer,
    manifest: Manifest | None,
) -> Configuration:
    """Return the configuration that is served, and warn if nobody evaluated it.

    `manifest` is that of a model which was fetched without its experts: it names their
    bytes, and so the weights.

    Raises:
        NotEvaluated: `config` requires an evaluation, and there is none.
        ModelFileError: the model's bytes cannot be read.
    """
    folder = config.data / FOLDER_NAME
    weights = _weights(model, folder) if manifest is None else _named(manifest)
    own = configuration_of(config, model, weights, tokenizer.digest)
    if is_evaluated(folder, own):
        return own
    what = f"configuration {own.digest[:16]} has no evaluation on record"
    if not own.is_known:
        what += ", and its weights have not been read for one"
    if config.require_evaluation:
        raise NotEvaluated(what)
    log.warning("%s; `p2pmoe eval` makes one", what)
    return own


def _weights(model: ModelFile, folder: Path) -> str:
    digest = known_weights(model, folder)
    if not digest and model.n_bytes <= AT_ONCE_BYTES:
        digest = read_weights(model)
        remember_weights(model, folder, digest)
    return digest


def _named(manifest: Manifest) -> str:
    """Return a digest of what a manifest says of bytes, wherever they are fetched."""
    digests = [piece.digest for piece in manifest.base]
    digests += [expert.digest for expert in manifest.experts]
    return f"manifest {hashlib.sha256(b''.join(digests)).hexdigest()}"
