"""Bodies of completion requests as checked values; nothing here knows the model.

Every bound has two ends. What is not built (n > 1, logprobs, tools, ...) is refused by
name; a value that asks for nothing, such as n = 1, passes. `null` counts as absent.

Source: the OpenAI API reference, chat completions and completions, with the common
extensions top_k, min_p and repetition_penalty.
"""

from dataclasses import dataclass
from typing import Any

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields
from p2pmoe.api.strict_json import parse_object
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text.template import ChatMessage

__all__ = ["ApiRequest", "parse_chat", "parse_completion"]

_MAX_TOKENS = (1 << 31) - 1
_MAX_SEED = (1 << 63) - 1
_MAX_STOPS = 16
_MAX_STOP_CHARACTERS = 1000
_MAX_MESSAGES = 10_000
_MAX_PROMPT_IDS = 1 << 20
_DEFAULT_COMPLETION_TOKENS = 16

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_IGNORED = ("user", "metadata", "safety_identifier", "prompt_cache_key")
_UNSUPPORTED: dict[str, tuple[object, ...]] = {
    "n": (1,),
    "logit_bias": ({},),
    "store": (False,),
}
_UNSUPPORTED_CHAT: dict[str, tuple[object, ...]] = {
    **_UNSUPPORTED,
    "logprobs": (False,),
    "top_logprobs": (),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": (),
    "audio": (),
    "prediction": (),
}
_UNSUPPORTED_COMPLETION: dict[str, tuple[object, ...]] = {
    **_UNSUPPORTED,
    "logprobs": (),
    "echo": (False,),
    "best_of": (1,),
    "suffix": ("",),
}
_UNSUPPORTED_MESSAGE: dict[str, tuple[object, ...]] = {
    "tool_calls": ([],),
    "function_call": (),
    "tool_call_id": (),
    "audio": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request: `prompt` is messages, a text, or token ids.

    `max_tokens` None means as many as the context leaves; `seed` None a random one;
    `model` None the one that is served.
    """

    prompt: tuple[ChatMessage, ...] | str | tuple[int, ...]
    model: str | None
    sampling: SamplingSettings
    seed: int | None
    max_tokens: int | None
    stops: tuple[str, ...]
    stream: bool
    include_usage: bool

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is a conversation."""
        return isinstance(self.prompt, tuple) and isinstance(
            next(iter(self.prompt), None), ChatMessage
        )


def parse_chat(body: bytes) -> ApiRequest:
    """Read the body of a chat completion; ApiRefusal names the field that is wrong."""
    fields = Fields(parse_object(body))
    messages = _messages(fields)
    most = fields.integer("max_tokens", 1, _MAX_TOKENS)
    most_too = fields.integer("max_completion_tokens", 1, _MAX_TOKENS)
    if most is not None and most_too is not None and most != most_too:
        raise fields.wrong("max_tokens", "differs from max_completion_tokens")
    fields.unsupported(_UNSUPPORTED_CHAT)
    return _request(fields, messages, most or most_too)


def parse_completion(body: bytes) -> ApiRequest:
    """Read the body of a text completion; ApiRefusal names the field that is wrong."""
    fields = Fields(parse_object(body))
    prompt = _prompt(fields)
    most = fields.integer("max_tokens", 1, _MAX_TOKENS)
    fields.unsupported(_UNSUPPORTED_COMPLETION)
    return _request(fields, prompt, most or _DEFAULT_COMPLETION_TOKENS)


def _request(
    fields: Fields,
    prompt: tuple[ChatMessage, ...] | str | tuple[int, ...],
    max_tokens: int | None,
) -> ApiRequest:
    stream = fields.flag("stream")
    include_usage = _include_usage(fields, stream=stream)
    request = ApiRequest(
        prompt=prompt,
        model=fields.text("model"),
        sampling=_sampling(fields),
        seed=fields.integer("seed", -_MAX_SEED - 1, _MAX_SEED),
        max_tokens=max_tokens,
        stops=_stops(fields),
        stream=stream,
        include_usage=include_usage,
    )
    fields.ignore(_IGNORED)
    fields.finish()
    return request


def _sampling(fields: Fields) -> SamplingSettings:
    def number(name: str, low: float, high: float, default: float) -> float:
        value = fields.number(name, low, high)
        return default if value is None else value

    return SamplingSettings(
        temperature=number("temperature", 0.0, 2.0, 1.0),
        top_k=fields.integer("top_k", 0, 1 << 22) or 0,
        top_p=number("top_p", 0.0, 1.0, 1.0),
        min_p=number("min_p", 0.0, 1.0, 0.0),
        repetition_penalty=number("repetition_penalty", 0.01, 10.0, 1.0),
        frequency_penalty=number("frequency_penalty", -2.0, 2.0, 0.0),
        presence_penalty=number("presence_penalty", -2.0, 2.0, 0.0),
    )


def _include_usage(fields: Fields, *, stream: bool) -> bool:
    value = fields.take("stream_options")
    if value is None:
        return False
    if not stream:
        raise fields.wrong("stream_options", "needs stream to be true")
    options = Fields(value, "stream_options")
    include_usage = options.flag("include_usage")
    options.ignore(("include_obfuscation",))
    options.finish()
    return include_usage


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.take("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list):
        raise fields.wrong("stop", "must be a string or an array of strings")
    if len(stops) > _MAX_STOPS:
        raise fields.wrong("stop", f"must have at most {_MAX_STOPS} items")
    for stop in stops:
        if not isinstance(stop, str) or not 0 < len(stop) <= _MAX_STOP_CHARACTERS:
            reason = f"must hold strings of 1 to {_MAX_STOP_CHARACTERS} characters"
            raise fields.wrong("stop", reason)
    return tuple(stops)


def _messages(fields: Fields) -> tuple[ChatMessage, ...]:
    items = fields.items("messages", _MAX_MESSAGES)
    if not items:
        raise fields.wrong("messages", "must hold at least one message")
    return tuple(_message(item, f"messages[{n}]") for n, item in enumerate(items))


def _message(value: object, name: str) -> ChatMessage:
    fields = Fields(value, name)
    role = fields.text("role")
    if role not in _ROLES:
        raise fields.wrong("role", f"must be one of {', '.join(sorted(_ROLES))}")
    content = _content(fields, name)
    if content is None and role != "assistant":
        raise fields.wrong("content", "is missing")
    fields.unsupported(_UNSUPPORTED_MESSAGE)
    fields.text("name")
    fields.ignore(("refusal", "annotations"))
    fields.finish()
    return ChatMessage(role=_ROLES[role], content=content or "")


def _content(fields: Fields, name: str) -> str | None:
    value = fields.take("content")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise fields.wrong("content", "must be a string or an array of text parts")
    return "".join(_part(item, f"{name}.content[{n}]") for n, item in enumerate(value))


def _part(value: object, name: str) -> str:
    fields = Fields(value, name)
    if fields.text("type") != "text":
        raise fields.wrong("type", "must be text", code="unsupported_parameter")
    text = fields.text("text")
    if text is None:
        raise fields.wrong("text", "is missing")
    fields.finish()
    return text


def _prompt(fields: Fields) -> str | tuple[int, ...]:
    value = fields.take("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or not value:
        raise fields.wrong("prompt", "must be one string or one array of token ids")
    return _ids(fields, value)


def _ids(fields: Fields, values: list[Any]) -> tuple[int, ...]:
    if len(values) > _MAX_PROMPT_IDS:
        message = f"prompt has {len(values)} token ids"
        raise ApiRefusal(message, param="prompt", code="context_length_exceeded")
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise fields.wrong("prompt", "must be one string or one array of token ids")
    return tuple(values)
