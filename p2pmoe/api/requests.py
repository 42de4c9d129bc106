"""What a completion request asks for, as checked values; nothing here knows the model.

Every bound has two ends. What is not built is refused by name; a value that asks for
nothing passes. `null` counts as absent. The parsers of the two endpoints, `chat` and
`text_completions`, share the readers here.

Source: the OpenAI API reference, chat completions and completions, with the common
extensions top_k, min_p and repetition_penalty, and our own explain and trace.
"""

from dataclasses import dataclass

from p2pmoe.api.fields import Fields
from p2pmoe.api.response_formats import ResponseFormat
from p2pmoe.api.tools import ToolUse
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.text.template import ChatMessage

__all__ = [
    "MAX_CHOICES",
    "MAX_TOKENS",
    "ApiRequest",
    "Conversation",
    "Options",
    "Prompt",
    "parse_options",
]

MAX_CHOICES = 16
MAX_TOKENS = (1 << 31) - 1
_MAX_SEED = (1 << 63) - 1
_MAX_STOPS = 16
_MAX_STOP_CHARACTERS = 1000
_MAX_BIASES = 1024
_MAX_BIAS = 100.0
_MAX_ID_DIGITS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages of a chat, the tools that the model may call, how long to think.

    `effort` None leaves that to the model's template.
    """

    messages: tuple[ChatMessage, ...]
    tool_use: ToolUse | None = None
    effort: str | None = None


Prompt = Conversation | str | tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What both endpoints have; `model` None is the one served, `seed` None any."""

    model: str | None
    sampling: SamplingSettings
    seed: int | None
    stops: tuple[str, ...]
    stream: bool
    include_usage: bool
    n: int = 1
    explains: bool = False
    traces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """One request: `options.n` choices for each of `prompts`.

    `max_tokens` None means as many as the context leaves, 0 (with `echoes` alone) no
    token at all. `n_top_logprobs` None asks for no log probabilities.
    """

    prompts: tuple[Prompt, ...]
    options: Options
    max_tokens: int | None
    n_top_logprobs: int | None = None
    echoes: bool = False
    response_format: ResponseFormat | None = None


def parse_options(fields: Fields) -> Options:
    """Take the fields that both endpoints have; ApiRefusal names one that is wrong."""
    stream = fields.flag("stream")
    n = fields.integer("n", 1, MAX_CHOICES)
    return Options(
        model=fields.text("model"),
        sampling=_sampling(fields),
        seed=fields.integer("seed", -_MAX_SEED - 1, _MAX_SEED),
        stops=_stops(fields),
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
        n=1 if n is None else n,
        explains=fields.flag("explain"),
        traces=fields.flag("trace"),
    )


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
        logit_bias=_biases(fields),
    )


def _biases(fields: Fields) -> tuple[tuple[int, float], ...]:
    value = fields.take("logit_bias")
    if value is None:
        return ()
    if not isinstance(value, dict) or len(value) > _MAX_BIASES:
        reason = f"must be an object of at most {_MAX_BIASES} token ids"
        raise fields.wrong("logit_bias", reason)
    biases: dict[int, float] = {}
    for key, bias in value.items():
        if not (key.isascii() and key.isdecimal() and len(key) <= _MAX_ID_DIGITS):
            raise fields.wrong("logit_bias", "must have token ids as keys")
        is_number = isinstance(bias, int | float) and not isinstance(bias, bool)
        if not is_number or not abs(bias) <= _MAX_BIAS:
            raise fields.wrong("logit_bias", "must have numbers from -100 to 100")
        if int(key) in biases:
            raise fields.wrong("logit_bias", f"names token {int(key)} twice")
        biases[int(key)] = float(bias)
    return tuple(sorted(biases.items()))


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
