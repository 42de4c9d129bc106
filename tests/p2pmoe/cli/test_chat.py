"""`p2pmoe chat`: the whole conversation goes along each turn."""

import copy

import pytest
from typer.testing import CliRunner

from p2pmoe.cli import chat
from p2pmoe.cli.main import build_app
from p2pmoe.client import ApiError, Completion


def test_two_turns(monkeypatch):
    turns: list[list[dict[str, str]]] = []

    def complete_chat(url, body, *, key, show):
        del url, key
        turns.append(copy.deepcopy(body["messages"]))
        show("yes")
        return Completion(text="yes", finish_reason="stop", usage={}, extension={})

    monkeypatch.setattr("p2pmoe.client.complete_chat", complete_chat)
    result = CliRunner().invoke(build_app(), ["chat"], input="hello\nagain\n\nno\n")
    assert result.exit_code == 0
    assert result.stdout == "yes\nyes\n"
    assert [message["content"] for message in turns[1]] == ["hello", "yes", "again"]


class Scripted:
    """An API that answers each turn by what stands in `script`."""

    def __init__(self, script):
        self.script = list(script)
        self.messages = []

    def __call__(self, url, body, *, key, show):
        del url, key
        self.messages.append(copy.deepcopy(body["messages"]))
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            show("half")
            raise answer
        show(answer)
        return Completion(text=answer, finish_reason="length", usage={}, extension={})


@pytest.fixture
def scripted(monkeypatch):
    def talk(lines, script, *, has_person=False, options=()):
        api = Scripted(script)
        monkeypatch.setattr("p2pmoe.client.complete_chat", api)
        monkeypatch.setattr(chat, "_has_person", lambda: has_person)
        text = "".join(f"{line}\n" for line in lines)
        result = CliRunner().invoke(build_app(), ["chat", *options], input=text)
        return result, api.messages

    return talk


def test_a_system_prompt_goes_first_and_reset_forgets_the_rest(scripted):
    result, turns = scripted(
        ["hi", "/reset", "ho", "/help", "/quit", "no"],
        ["a", "b"],
        options=["--system", "be brief"],
    )
    assert result.exit_code == 0
    system = {"role": "system", "content": "be brief"}
    assert turns == [
        [system, {"role": "user", "content": "hi"}],
        [system, {"role": "user", "content": "ho"}],
    ]
    assert "/reset" in result.stderr


def test_an_answer_that_was_cut_off_is_told(scripted):
    result, _ = scripted(["hi"], ["a"])
    assert "--max-tokens" in result.stderr


def test_an_error_ends_a_pipe_and_not_a_persons_conversation(scripted):
    result, turns = scripted(["hi", "ho"], [ApiError("lost"), "b"])
    assert isinstance(result.exception, ApiError)
    assert len(turns) == 1
    result, turns = scripted(["hi", "ho"], [ApiError("lost"), "b"], has_person=True)
    assert result.exit_code == 0
    assert "error: lost" in result.stderr
    assert turns[1] == [{"role": "user", "content": "ho"}]


def test_an_interrupt_stops_the_answer_and_keeps_what_came(scripted):
    result, turns = scripted(["hi", "ho"], [KeyboardInterrupt(), "b"], has_person=True)
    assert result.exit_code == 0
    assert [m["content"] for m in turns[1]] == ["hi", "half", "ho"]
    result, turns = scripted(["hi", "ho"], [KeyboardInterrupt(), "b"])
    assert len(turns) == 1
    assert result.exit_code == 130


def test_input_that_is_no_text_is_told(monkeypatch):
    result = CliRunner().invoke(build_app(), ["chat"], input=b"\xff\xfe\n")
    assert "UTF-8" in str(result.exception)
