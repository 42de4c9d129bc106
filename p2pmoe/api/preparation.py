"""A checked request made ready for the engine: token ids, room left, stop rules.

Pure computation that may take tens of milliseconds for a long prompt: it runs in a
worker thread. A prompt that leaves no room in the context is refused before anything
is computed for it, never cut (fault B19). Each choice is one request to the engine;
choice i of a prompt has the seed + i, so that n choices are what n requests with
these seeds would give.
"""

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.output_rules import OutputRules, output_rules
from p2pmoe.api.prompts import encode_prompt
from p2pmoe.api.requests import MAX_TOKENS, ApiRequest
from p2pmoe.api.served_model import ServedModel
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.text.stopping import StopRules

__all__ = ["Asked", "Prepared", "PreparedChoice", "prepare"]

_SEEDS = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who asks, and the seed for a request that names none."""

    fresh_seed: int
    client: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedChoice:
    """What the engine gets for one choice, and where its text ends.

    `prompt` is the number of the prompt; choices of one prompt have the same ids.
    """

    index: int
    prompt: int
    generation: GenerationRequest
    rules: StopRules


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """All choices of a request; with `delivers_nothing` the prompt alone is told."""

    choices: tuple[PreparedChoice, ...]
    output: OutputRules
    echoes: bool = False
    delivers_nothing: bool = False

    @property
    def n_prompt(self) -> int:
        """Tokens of all prompts, each counted once however many choices it has."""
        counts = {each.prompt: len(each.generation.prompt_ids) for each in self.choices}
        return sum(counts.values())


def prepare(request: ApiRequest, model: ServedModel, asked: Asked) -> Prepared:
    """Turn a request into token ids and limits.

    Raises:
        ApiRefusal: Another model, no room for the prompt, an impossible text, or
            what this model cannot do.
    """
    _check_model(request, model)
    _check_biases(request, model)
    output = output_rules(request, model)
    choices = tuple(
        _choice(request, asked, ids, number, copy)
        for number, ids in enumerate(_all_ids(request, model))
        for copy in range(request.options.n)
    )
    return Prepared(
        choices=tuple(_completed(choice, output, model) for choice in choices),
        output=output,
        echoes=request.echoes,
        delivers_nothing=request.max_tokens == 0,
    )


def _all_ids(request: ApiRequest, model: ServedModel) -> list[tuple[int, ...]]:
    return [encode_prompt(prompt, model) for prompt in request.prompts]


def _choice(
    request: ApiRequest,
    asked: Asked,
    ids: tuple[int, ...],
    number: int,
    copy: int,
) -> PreparedChoice:
    """Return one choice with limits that do not depend on the model yet."""
    options = request.options
    seed = asked.fresh_seed if options.seed is None else options.seed
    max_tokens = 1 if request.max_tokens == 0 else request.max_tokens
    generation = GenerationRequest(
        prompt_ids=ids,
        sampling=dataclasses.replace(options.sampling, seed=_wrapped(seed + copy)),
        max_tokens=max_tokens or MAX_TOKENS,
        client=asked.client,
        n_top_logprobs=request.n_top_logprobs,
        scores_prompt=request.echoes and request.n_top_logprobs is not None,
        explains=options.explains,
        traces=options.traces,
    )
    return PreparedChoice(
        index=number * options.n + copy,
        prompt=number,
        generation=generation,
        rules=StopRules(max_tokens=1, stop_texts=options.stops),
    )


def _completed(
    choice: PreparedChoice, output: OutputRules, model: ServedModel
) -> PreparedChoice:
    """Return a choice with the model's own limits and ends."""
    asked = choice.generation
    max_tokens = min(asked.max_tokens, model.n_context - len(asked.prompt_ids))
    generation = dataclasses.replace(
        asked,
        max_tokens=max_tokens,
        stop_ids=model.stop_ids,
        constraint=output.constraint,
    )
    rules = dataclasses.replace(
        choice.rules, max_tokens=max_tokens, stop_ids=model.stop_ids
    )
    return dataclasses.replace(choice, generation=generation, rules=rules)


def _wrapped(seed: int) -> int:
    """Keep a seed in 64 bits with a sign."""
    return (seed + _SEEDS) % (2 * _SEEDS) - _SEEDS


def _check_model(request: ApiRequest, model: ServedModel) -> None:
    name = request.options.model
    if name is not None and name != model.name:
        raise ApiRefusal(
            f"model {name[:80]!r} is not served here, {model.name!r} is",
            param="model",
            code="model_not_found",
            status=HTTPStatus.NOT_FOUND,
        )


def _check_biases(request: ApiRequest, model: ServedModel) -> None:
    for token, _ in request.options.sampling.logit_bias:
        if token >= model.tokenizer.n_vocab:
            raise ApiRefusal(
                f"logit_bias: there is no token {token}",
                param="logit_bias",
                code="invalid_value",
            )
