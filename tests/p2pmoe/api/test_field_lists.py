"""Every field of OpenAI's reference is handled, ignored or refused, as listed."""

import json
from pathlib import Path

import pytest
from openai.types import completion_create_params as text_params
from openai.types.chat import completion_create_params as chat_params

from p2pmoe.api.chat import parse_chat
from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.field_lists import (
    CHAT_HANDLED,
    CHAT_IGNORED,
    CHAT_REFUSED,
    EXTENSIONS,
    MESSAGE_REFUSED,
    TEXT_HANDLED,
    TEXT_IGNORED,
    TEXT_REFUSED,
)
from p2pmoe.api.text_completions import parse_completion
from tests.p2pmoe.api.test_requests import chat, completion


def test_every_field_of_the_official_client_is_in_one_list() -> None:
    theirs = set(chat_params.CompletionCreateParamsStreaming.__annotations__)
    assert theirs <= CHAT_HANDLED | CHAT_IGNORED | set(CHAT_REFUSED)
    assert len(CHAT_HANDLED | CHAT_IGNORED | set(CHAT_REFUSED)) == (
        len(CHAT_HANDLED) + len(CHAT_IGNORED) + len(CHAT_REFUSED)
    )
    theirs = set(text_params.CompletionCreateParamsStreaming.__annotations__)
    assert theirs <= TEXT_HANDLED | TEXT_IGNORED | set(TEXT_REFUSED)
    assert not EXTENSIONS & (CHAT_HANDLED | TEXT_HANDLED)


@pytest.mark.parametrize("name", sorted(CHAT_HANDLED | EXTENSIONS))
def test_every_handled_field_of_a_chat_is_looked_at(name: str) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], name: {"odd": "odd"}}
    with pytest.raises(ApiRefusal) as caught:
        parse_chat(json.dumps(body).encode())
    assert (caught.value.param or "").split(".")[0] == name
    assert caught.value.code != "unknown_parameter" or "." in str(caught.value.param)


@pytest.mark.parametrize("name", sorted(TEXT_HANDLED | EXTENSIONS))
def test_every_handled_field_of_a_completion_is_looked_at(name: str) -> None:
    body = {"prompt": "x", name: {"odd": "odd"}}
    with pytest.raises(ApiRefusal) as caught:
        parse_completion(json.dumps(body).encode())
    assert (caught.value.param or "").split(".")[0] == name


@pytest.mark.parametrize("name", sorted(CHAT_IGNORED))
def test_ignored_fields_take_any_value(name: str) -> None:
    for value in ("x", {"a": 1}, 3):
        assert chat(**{name: value}) == chat()
        assert completion(**{name: value}) == completion()


@pytest.mark.parametrize("name", sorted(CHAT_REFUSED))
def test_refused_fields_of_a_chat_are_named(name: str) -> None:
    for value in ("anything else", {"a": 1}, 3):
        with pytest.raises(ApiRefusal) as caught:
            chat(**{name: value})
        assert (caught.value.param, caught.value.code) == (
            name,
            "unsupported_parameter",
        )
        assert caught.value.status == 400
    for neutral in CHAT_REFUSED[name]:
        assert chat(**{name: neutral}) == chat()
    assert chat(**{name: None}) == chat()


@pytest.mark.parametrize("name", sorted(TEXT_REFUSED))
def test_refused_fields_of_a_completion_are_named(name: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(**{name: "anything else"})
    assert (caught.value.param, caught.value.code) == (name, "unsupported_parameter")
    for neutral in TEXT_REFUSED[name]:
        assert completion(**{name: neutral}) == completion()


@pytest.mark.parametrize("name", sorted(MESSAGE_REFUSED))
def test_refused_fields_of_a_message_are_named(name: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        chat(messages=[{"role": "user", "content": "x", name: {"a": 1}}])
    assert caught.value.param == f"messages[0].{name}"


def test_every_field_is_in_the_reference() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/api.md").read_text("utf-8")
    for name in CHAT_HANDLED | TEXT_HANDLED | EXTENSIONS | CHAT_IGNORED:
        assert f"`{name}`" in page, name
    for name in {**CHAT_REFUSED, **TEXT_REFUSED, **MESSAGE_REFUSED}:
        assert f"`{name}`" in page, name
