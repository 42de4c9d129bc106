"""Loads what a service needs of its model, on a thread: tokenizer, memory, template.

Weights are not read but where `LocalSide.warm_up` says so. In a network the manifest,
which others must know us by, is made or recalled, too. A model that is named by its
manifest is fetched first, all but its experts (base_model.py).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.clock import Clock
from mobile_worker.shards.manifest import Manifest
from p2pmoe.api.served_model import ServedModel
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.manifest_store import stored_manifest
from p2pmoe.backbone.speculation.draft_file import DraftFile, open_draft_file
from p2pmoe.backbone.warm_up import WARM_UP_TEXT
from p2pmoe.config import ServeConfig
from p2pmoe.evaluate.evidence import checked_configuration
from p2pmoe.model.errors import ModelRefused
from p2pmoe.speculating import PrefetchPolicy, SpeculationPolicy, SpeculationWish
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.template import BrokenTemplate, ChatTemplate, load_template
from p2pmoe.text.tokenizer import Tokenizer, load_tokenizer
from p2pmoe.weights.manifest import ManifestOptions
from p2pmoe.weights.model_file import ModelFile

if TYPE_CHECKING:
    from p2pmoe.backbone.base_model import BaseModel

__all__ = ["Loaded", "load_service"]

log = logging.getLogger("p2pmoe.backbone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that is ready to be served; `manifest` is None without a network.

    `draft` is the model of `--draft`, if it can draft for this one.
    """

    local: LocalSide
    served: ServedModel
    manifest: Manifest | None
    draft: DraftFile | None = None


def load_service(
    model_file: ModelFile | None,
    config: ServeConfig,
    clock: Clock,
    warming: Callable[[], None] = lambda: None,
    told: Callable[[str, float], None] = lambda _, __: None,
) -> Loaded:
    """Load a model as `config` says; `warming` is called when headers are accepted.

    `model_file` is None where `config` names a manifest: then the model is fetched, and
    `told` hears what is being done, and its share done.

    Raises:
        ModelUnavailable: it cannot be fetched.
        RamTooSmall, ConfigurationError, KernelUnavailable: see `LocalSide`.
        ModelRefused, ModelFileError, FormatUnsupported: the model cannot be run.
        TokenizerError: its tokenizer cannot be used.
        NotEvaluated: an evaluation is required, and there is none.
    """
    base = None
    if model_file is None:
        base = _fetched(config, told)
        model_file = base.model_file
    manifest = None if base is None else base.manifest
    override = config.pre_tokenizer
    tokenizer = load_tokenizer(model_file, pretokenizer_override=override)
    configuration = checked_configuration(config, model_file, tokenizer, manifest)
    local = _local_side(model_file, config, base)
    _check_vocabulary(tokenizer, local)
    warming()
    draft = open_draft_file(config.speculation, local, tokenizer)
    tokens = tokenizer.encode(WARM_UP_TEXT, bos=tokenizer.vocabulary.add_bos)
    local.warm_up(tokens, in_network=config.access is not None)
    served = ServedModel(
        name=model_file.name,
        n_context=local.n_context,
        tokenizer=tokenizer,
        template=_template(model_file, tokenizer, local.n_context, clock),
        created_s=clock.wall_us() // 1_000_000,
        configuration=configuration.document(),
    )
    if served.template is None:
        log.info("the model has no chat template: it completes text alone")
    if manifest is not None:
        _check_tokenizer(tokenizer, manifest)
    elif config.access is not None:
        options = ManifestOptions(tokenizer_digest=tokenizer.digest)
        manifest = stored_manifest(config.data, model_file, options)
    return Loaded(local=local, served=served, manifest=manifest, draft=draft)


def _fetched(config: ServeConfig, told: Callable[[str, float], None]) -> "BaseModel":
    from p2pmoe.backbone.base_model import (  # noqa: PLC0415 - loads httpx
        open_by_manifest,
    )

    return open_by_manifest(config.manifest or "", config.model, told)


def _local_side(
    model_file: ModelFile, config: ServeConfig, base: "BaseModel | None"
) -> LocalSide:
    if base is None:
        return LocalSide(model_file, _options(config))
    from p2pmoe.backbone.base_side import BaseSide  # noqa: PLC0415 - loads httpx
    from p2pmoe.backbone.fetched_experts import ExpertFetcher  # noqa: PLC0415

    return BaseSide(model_file, _options(config), ExpertFetcher(base.manifest))


def _check_tokenizer(tokenizer: Tokenizer, manifest: Manifest) -> None:
    """Refuse a manifest that was made with another tokenizer."""
    if manifest.tokenizer_digest not in (b"", tokenizer.digest):
        raise ModelRefused("the manifest was made with another tokenizer")


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
    tuning = config.tuning
    n_lanes = tuning.n_lanes or (2 if in_network else 1)
    return LocalOptions(
        data=config.data,
        ram_bytes=config.ram_bytes,
        disk_cache_bytes=config.disk_cache_bytes,
        disk_access=config.disk_access,
        n_lanes=n_lanes,
        n_chunks=tuning.prefill_chunks if in_network else 1,
        n_sequences=tuning.max_batch * n_lanes,
        n_context=config.n_context,
        profile=Profile[config.profile.upper()],
        policy=config.disk,
        missing=config.missing,
        drop_bound=config.drop_bound,
        kernel=config.kernel,
        n_threads=config.n_threads,
        prefetches=in_network and _foresees(config.speculation),
        ahead_bytes=config.tuning.ahead_bytes,
    )


def _foresees(wish: SpeculationWish) -> bool:
    """Whether somebody foresees experts whose weights may be fetched."""
    foresees = wish.policy in {SpeculationPolicy.AUTO, SpeculationPolicy.SELF}
    return foresees and wish.prefetch is PrefetchPolicy.AUTO


def _check_vocabulary(tokenizer: Tokenizer, local: LocalSide) -> None:
    n_tokens, n_vocab = len(tokenizer.vocabulary.texts), local.model.description.n_vocab
    if n_tokens > n_vocab:
        raise ModelRefused(
            f"a vocabulary of {n_tokens} tokens for {n_vocab} embeddings"
        )
