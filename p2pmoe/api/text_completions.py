"""The body of POST /v1/completions."""

from typing import Any

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.field_lists import TEXT_IGNORED, TEXT_REFUSED
from p2pmoe.api.fields import Fields
from p2pmoe.api.requests import MAX_TOKENS, ApiRequest, Options, Prompt, parse_options
from p2pmoe.api.strict_json import parse_object

__all__ = ["parse_completion"]

_MAX_LOGPROBS = 20  # OpenAI's own limit is 5
_MAX_CHOICES = 128  # of all prompts
_MAX_PROMPT_IDS = 1 << 20
_DEFAULT_TOKENS = 16
_KINDS = "must be a string, an array of strings, or one or more arrays of token ids"


def parse_completion(body: bytes) -> ApiRequest:
    """Read the body of a text completion; ApiRefusal names the field that is wrong."""
    fields = Fields(parse_object(body))
    prompts = _prompts(fields)
    options = parse_options(fields)
    echoes = fields.flag("echo")
    max_tokens = fields.integer("max_tokens", 0 if echoes else 1, MAX_TOKENS)
    _check_counts(fields, prompts, options)
    request = ApiRequest(
        prompts=prompts,
        options=options,
        max_tokens=_DEFAULT_TOKENS if max_tokens is None else max_tokens,
        n_top_logprobs=fields.integer("logprobs", 0, _MAX_LOGPROBS),
        echoes=echoes,
    )
    fields.unsupported(TEXT_REFUSED)
    fields.ignore(TEXT_IGNORED)
    fields.finish()
    return request


def _check_counts(
    fields: Fields, prompts: tuple[Prompt, ...], options: Options
) -> None:
    best_of = fields.integer("best_of", 1, MAX_TOKENS)
    if best_of not in {None, options.n}:
        reason = "is not supported unless it equals n"
        raise fields.wrong("best_of", reason, code="unsupported_parameter")
    if len(prompts) * options.n > _MAX_CHOICES:
        raise fields.wrong("prompt", f"must give at most {_MAX_CHOICES} choices")


def _prompts(fields: Fields) -> tuple[Prompt, ...]:
    value = fields.take("prompt")
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not value:
        raise fields.wrong("prompt", _KINDS)
    if isinstance(value[0], str | list):
        if len(value) > _MAX_CHOICES:
            raise fields.wrong("prompt", f"must have at most {_MAX_CHOICES} items")
        return tuple(_prompt(fields, item, type(value[0])) for item in value)
    return (_ids(fields, value),)


def _prompt(fields: Fields, value: object, kind: type) -> Prompt:
    if type(value) is not kind:
        raise fields.wrong("prompt", _KINDS)
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise fields.wrong("prompt", _KINDS)
    return _ids(fields, value)


def _ids(fields: Fields, values: list[Any]) -> tuple[int, ...]:
    if len(values) > _MAX_PROMPT_IDS:
        message = f"prompt has {len(values)} token ids"
        raise ApiRefusal(message, param="prompt", code="context_length_exceeded")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise fields.wrong("prompt", _KINDS)
    return tuple(values)
