"""Loads what a service needs of its model, on a thread: tokenizer, memory, template.

Weights are not read but where `LocalSide.warm_up` says so. In a network the manifest,
which others must know us by, is made or recalled, too.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.clock import Clock
from mobile_worker.shards.manifest import Manifest
from p2pmoe.api.preparation import ServedModel
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.manifest_store import stored_manifest
from p2pmoe.backbone.warm_up import WARM_UP_TEXT
from p2pmoe.config import ServeConfig
from p2pmoe.model.errors import ModelRefused
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.template import BrokenTemplate, ChatTemplate, load_template
from p2pmoe.text.tokenizer import Tokenizer, load_tokenizer
from p2pmoe.weights.manifest import ManifestOptions
from p2pmoe.weights.model_file import ModelFile

__all__ = ["Loaded", "load_service"]

log = logging.getLogger("p2pmoe.backbone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that is ready to be served; `manifest` is None without a network."""

    local: LocalSide
    served: ServedModel
    manifest: Manifest | None


def load_service(
    model_file: ModelFile,
    config: ServeConfig,
    clock: Clock,
    warming: Callable[[], None] = lambda: None,
) -> Loaded:
    """Load a model as `config` says; `warming` is called when headers are accepted.

    Raises:
        RamTooSmall, ConfigurationError, KernelUnavailable: see `LocalSide`.
        ModelRefused, ModelFileError, FormatUnsupported: the model cannot be run.
        TokenizerError: its tokenizer cannot be used.
    """
    override = config.pre_tokenizer
    tokenizer = load_tokenizer(model_file, pretokenizer_override=override)
    local = LocalSide(model_file, _options(config))
    _check_vocabulary(tokenizer, local)
    warming()
    tokens = tokenizer.encode(WARM_UP_TEXT, bos=tokenizer.vocabulary.add_bos)
    local.warm_up(tokens, in_network=config.access is not None)
    served = ServedModel(
        name=model_file.name,
        n_context=local.n_context,
        tokenizer=tokenizer,
        template=_template(model_file, tokenizer, local.n_context, clock),
        created_s=clock.wall_us() // 1_000_000,
    )
    if served.template is None:
        log.info("the model has no chat template: it completes text alone")
    manifest = None
    if config.access is not None:
        options = ManifestOptions(tokenizer_digest=tokenizer.digest)
        manifest = stored_manifest(config.data, model_file, options)
    return Loaded(local=local, served=served, manifest=manifest)


def _template(
    model_file: ModelFile, tokenizer: Tokenizer, n_context: int, clock: Clock
) -> ChatTemplate | BrokenTemplate | None:
    """Return the chat template; one that does not compile is told and costs chats."""
    try:
        return load_template(
            model_file,
            tokenizer,
            n_context,
            monotonic=clock.monotonic,
            wall_us=clock.wall_us,
        )
    except TemplateError as error:
        log.warning("%s; it completes text, and every chat is refused", error)
        return BrokenTemplate(error)


def _options(config: ServeConfig) -> LocalOptions:
    in_network = config.access is not None
    n_lanes = config.tuning.n_lanes or (2 if in_network else 1)
    return LocalOptions(
        data=config.data,
        ram_bytes=config.ram_bytes,
        disk_cache_bytes=config.disk_cache_bytes,
        disk_access=config.disk_access,
        n_lanes=n_lanes,
        n_sequences=config.tuning.max_batch * n_lanes,
        n_context=config.n_context,
        profile=Profile[config.profile.upper()],
        policy=config.disk,
        missing=config.missing,
        drop_bound=config.drop_bound,
        kernel=config.kernel,
        n_threads=config.n_threads,
    )


def _check_vocabulary(tokenizer: Tokenizer, local: LocalSide) -> None:
    n_tokens, n_vocab = len(tokenizer.vocabulary.texts), local.model.description.n_vocab
    if n_tokens > n_vocab:
        raise ModelRefused(
            f"a vocabulary of {n_tokens} tokens for {n_vocab} embeddings"
        )
