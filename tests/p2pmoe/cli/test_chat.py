"""`p2pmoe chat`: the whole conversation goes along each turn."""

import copy

from typer.testing import CliRunner

from p2pmoe.cli.main import build_app
from p2pmoe.client import Completion


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
