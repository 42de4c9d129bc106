"""Fault B19: whatever a body holds, it is a request or a refusal that names a field."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.api.chat import parse_chat
from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.field_lists import (
    CHAT_HANDLED,
    CHAT_IGNORED,
    CHAT_REFUSED,
    EXTENSIONS,
    TEXT_HANDLED,
    TEXT_REFUSED,
)
from p2pmoe.api.preparation import Asked, prepare
from p2pmoe.api.requests import ApiRequest
from p2pmoe.api.text_completions import parse_completion
from tests.support.api import small_model
from tests.support.tool_templates import TOOL_TEMPLATES

MODEL = small_model(n_context=512, template=TOOL_TEMPLATES["hermes"])
NAMES = sorted(
    {*CHAT_HANDLED, *TEXT_HANDLED, *EXTENSIONS, *CHAT_IGNORED}
    | {*CHAT_REFUSED, *TEXT_REFUSED, "unknown"}
)
WORDS = ["function", "text", "user", "tool", "json_object", "json_schema", "auto", "x"]
KEYS = ["type", "function", "name", "role", "content", "tool_calls", "id", "arguments"]
KEYS += ["json_schema", "schema", "parameters", "tool_call_id", "include_usage", "5"]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS) | st.text(max_size=3), inner, max_size=4
        )
    ),
    max_leaves=12,
)
FIELDS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=2)
MESSAGES = [{"role": "user", "content": "hi"}]


def outcome(parse: Callable[[bytes], ApiRequest], **fields: Any) -> ApiRefusal | None:
    """A request is prepared, or its refusal returned; anything else is a fault."""
    try:
        prepared = prepare(
            parse(json.dumps(fields).encode()), MODEL, Asked(fresh_seed=1)
        )
    except ApiRefusal as refusal:
        return refusal
    for choice in prepared.choices:
        assert choice.generation.prompt_ids
        assert 1 <= choice.generation.max_tokens <= MODEL.n_context
    return None


def check(refusal: ApiRefusal | None) -> None:
    assert refusal is None or refusal.status in {400, 404}
    assert refusal is None or (refusal.param and refusal.code)


@settings(max_examples=200, deadline=None)
@given(FIELDS, FIELDS)
def test_any_fields_are_a_request_or_a_refusal(
    chat: dict[str, Any], completion: dict[str, Any]
) -> None:
    check(outcome(parse_chat, **{"messages": MESSAGES, **chat}))
    check(outcome(parse_completion, **{"prompt": "hi", **completion}))
