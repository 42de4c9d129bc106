"""A checked request made ready for the engine: token ids, room left, stop rules.

Pure computation that may take tens of milliseconds for a long prompt: it runs in a
worker thread. A prompt that leaves no room in the context is refused before anything
is computed for it, never cut (fault B19).
"""

import dataclasses
from dataclasses import dataclass
from http import HTTPStatus

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import ApiRequest
from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.text.errors import TemplateError, TextRefused
from p2pmoe.text.stopping import StopRules
from p2pmoe.text.template import BrokenTemplate, ChatMessage, ChatTemplate
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["Prepared", "ServedModel", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model as its clients see it.

    `template` None means that the file has none; `created_s` is when it was loaded,
    in seconds since 1970.
    """

    name: str
    n_context: int
    tokenizer: Tokenizer
    template: ChatTemplate | BrokenTemplate | None
    created_s: int

    @property
    def stop_ids(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.tokenizer.vocabulary.stop_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the engine gets, and where the text ends."""

    generation: GenerationRequest
    rules: StopRules


def prepare(request: ApiRequest, model: ServedModel, fresh_seed: int) -> Prepared:
    """Turn a request into token ids and limits.

    Raises:
        ApiRefusal: Another model, no room for the prompt, or an impossible text.
    """
    if request.model is not None and request.model != model.name:
        raise ApiRefusal(
            f"model {request.model[:80]!r} is not served here, {model.name!r} is",
            param="model",
            code="model_not_found",
            status=HTTPStatus.NOT_FOUND,
        )
    prompt_ids = _prompt_ids(request, model)
    room = model.n_context - len(prompt_ids)
    if room < 1:
        raise _too_long(request, f"{len(prompt_ids)} tokens", model)
    max_tokens = min(request.max_tokens or room, room)
    seed = fresh_seed if request.seed is None else request.seed
    generation = GenerationRequest(
        prompt_ids=prompt_ids,
        sampling=dataclasses.replace(request.sampling, seed=seed),
        max_tokens=max_tokens,
        stop_ids=model.stop_ids,
    )
    rules = StopRules(
        max_tokens=max_tokens, stop_ids=model.stop_ids, stop_texts=request.stops
    )
    return Prepared(generation=generation, rules=rules)


def _prompt_ids(request: ApiRequest, model: ServedModel) -> tuple[int, ...]:
    prompt = request.prompt
    param = "messages" if request.is_chat else "prompt"
    _refuse_hopeless(request, model)
    try:
        if isinstance(prompt, str):
            bos = model.tokenizer.vocabulary.add_bos
            ids = tuple(model.tokenizer.encode(prompt, bos=bos))
        else:
            ids = _ids_of(prompt, model)
    except TextRefused as exc:
        raise ApiRefusal(str(exc), param=param, code="invalid_value") from exc
    except TemplateError as exc:
        if exc.by_messages:
            raise ApiRefusal(str(exc), param=param, code="invalid_value") from exc
        raise ApiRefusal(
            "the model's chat template failed",
            param=param,
            code="template_failed",
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
        ) from exc
    if not ids:
        raise ApiRefusal(f"{param} is empty", param=param, code="invalid_value")
    return ids


def _ids_of(
    prompt: tuple[ChatMessage, ...] | tuple[int, ...], model: ServedModel
) -> tuple[int, ...]:
    messages = tuple(item for item in prompt if isinstance(item, ChatMessage))
    if not messages:
        ids = tuple(item for item in prompt if isinstance(item, int))
        for token in ids:
            model.tokenizer.token_bytes(token)
        return ids
    if model.template is None:
        raise ApiRefusal(
            "this model has no chat template; use /v1/completions",
            param="messages",
            code="no_chat_template",
        )
    return tuple(model.template.encode(messages))


def _refuse_hopeless(request: ApiRequest, model: ServedModel) -> None:
    """Refuse a text that no tokenization could fit, before it is tokenized."""
    if isinstance(request.prompt, str):
        n_characters = len(request.prompt)
    else:
        n_characters = sum(
            len(item.content)
            for item in request.prompt
            if isinstance(item, ChatMessage)
        )
    if n_characters > model.n_context * model.tokenizer.longest_token_bytes:
        raise _too_long(request, f"{n_characters} characters", model)


def _too_long(request: ApiRequest, size: str, model: ServedModel) -> ApiRefusal:
    return ApiRefusal(
        f"the prompt of {size} leaves no room in a context of {model.n_context} tokens",
        param="messages" if request.is_chat else "prompt",
        code="context_length_exceeded",
    )
