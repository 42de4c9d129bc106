"""The body of POST /v1/chat/completions."""

from p2pmoe.api.field_lists import CHAT_IGNORED, CHAT_REFUSED
from p2pmoe.api.fields import Fields
from p2pmoe.api.messages import parse_messages
from p2pmoe.api.requests import (
    MAX_TOKENS,
    ApiRequest,
    Conversation,
    parse_options,
)
from p2pmoe.api.response_formats import parse_response_format
from p2pmoe.api.strict_json import parse_object
from p2pmoe.api.tools import parse_tools

__all__ = ["parse_chat"]

_MAX_TOP_LOGPROBS = 20
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")


def parse_chat(body: bytes) -> ApiRequest:
    """Read the body of a chat completion; ApiRefusal names the field that is wrong."""
    fields = Fields(parse_object(body))
    messages = parse_messages(fields)
    tool_use = parse_tools(fields)
    form = parse_response_format(fields)
    if tool_use is not None and form is not None:
        reason = "cannot be given together with tools"
        raise fields.wrong("response_format", reason, code="unsupported_parameter")
    conversation = Conversation(
        messages=messages, tool_use=tool_use, effort=_effort(fields)
    )
    request = ApiRequest(
        prompts=(conversation,),
        options=parse_options(fields),
        max_tokens=_max_tokens(fields),
        n_top_logprobs=_n_top_logprobs(fields),
        response_format=form,
    )
    fields.unsupported(CHAT_REFUSED)
    fields.ignore(CHAT_IGNORED)
    fields.finish()
    return request


def _effort(fields: Fields) -> str | None:
    effort = fields.text("reasoning_effort")
    if effort is not None and effort not in _EFFORTS:
        raise fields.wrong("reasoning_effort", f"must be one of {', '.join(_EFFORTS)}")
    return effort


def _max_tokens(fields: Fields) -> int | None:
    most = fields.integer("max_tokens", 1, MAX_TOKENS)
    most_too = fields.integer("max_completion_tokens", 1, MAX_TOKENS)
    if most is not None and most_too is not None and most != most_too:
        raise fields.wrong("max_tokens", "differs from max_completion_tokens")
    return most or most_too


def _n_top_logprobs(fields: Fields) -> int | None:
    wanted = fields.flag("logprobs")
    n_top = fields.integer("top_logprobs", 0, _MAX_TOP_LOGPROBS)
    if not wanted:
        if n_top is not None:
            raise fields.wrong("top_logprobs", "needs logprobs to be true")
        return None
    return n_top or 0
