"""Every field of OpenAI's two requests: handled, ignored, or refused.

A field that is ignored changes nothing that an answer holds: who asks, or a hint about
caches. One that is refused passes with a value that asks for nothing. What is in none
of these lists is unknown and refused as such.

Source: the OpenAI API reference; a test compares the lists with the official client's.
"""

from collections.abc import Mapping

__all__ = [
    "CHAT_HANDLED",
    "CHAT_IGNORED",
    "CHAT_REFUSED",
    "EXTENSIONS",
    "MESSAGE_IGNORED",
    "MESSAGE_REFUSED",
    "TEXT_HANDLED",
    "TEXT_IGNORED",
    "TEXT_REFUSED",
]

Neutral = Mapping[str, tuple[object, ...]]

_BOTH = frozenset(
    {
        *("model", "stream", "stream_options", "max_tokens", "stop", "seed", "n"),
        *("temperature", "top_p", "frequency_penalty", "presence_penalty"),
        *("logit_bias", "logprobs"),
    }
)
CHAT_HANDLED = _BOTH | {
    *("messages", "max_completion_tokens", "top_logprobs", "response_format"),
    *("tools", "tool_choice", "parallel_tool_calls", "reasoning_effort"),
}
TEXT_HANDLED = _BOTH | {"prompt", "echo", "best_of"}
EXTENSIONS = frozenset(
    {"top_k", "min_p", "repetition_penalty", "explain", "trace"}
)  # not OpenAI's

CHAT_IGNORED = frozenset(
    {
        *("user", "metadata", "safety_identifier", "prompt_cache_key"),
        *("prompt_cache_retention", "prompt_cache_options"),
    }
)
TEXT_IGNORED = CHAT_IGNORED
MESSAGE_IGNORED = frozenset({"refusal", "annotations", "reasoning_content"})

CHAT_REFUSED: Neutral = {
    "store": (False,),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "verbosity": ("medium",),
    "audio": (),
    "prediction": (),
    "moderation": (),
    "web_search_options": (),
}
TEXT_REFUSED: Neutral = {"store": (False,), "suffix": ("",)}
MESSAGE_REFUSED: Neutral = {
    "function_call": (),
    "audio": (),
    "type": ("text",),  # which evaluation tools write
}
