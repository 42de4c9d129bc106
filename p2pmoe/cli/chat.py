"""`p2pmoe chat`: a conversation with a running backbone, line by line.

An empty line or the end of input leaves. The whole conversation is sent each turn;
nothing is kept on disk.
"""

import sys
from typing import Annotated

import typer

__all__ = ["register"]

Url = Annotated[
    str, typer.Option(metavar="URL", help="Where the backbone's API listens.")
]
MaxTokens = Annotated[
    int, typer.Option(metavar="N", help="How many tokens an answer has at most.")
]
Temperature = Annotated[
    float, typer.Option(metavar="T", help="0 takes the likeliest token.")
]
KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="File that holds the API key.")
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("chat")(_chat)


def _chat(
    url: Url = "http://127.0.0.1:8080",
    max_tokens: MaxTokens = 256,
    temperature: Temperature = 0.7,
    key_file: KeyFile = None,
) -> None:
    """Talk with the model; an empty line ends the conversation."""
    from p2pmoe.cli.api_key import read_api_key
    from p2pmoe.cli.text_on_stdout import text_on_stdout
    from p2pmoe.client import complete_chat

    key = read_api_key(key_file)
    messages: list[dict[str, str]] = []
    while line := _ask():
        messages.append({"role": "user", "content": line})
        body = {
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        with text_on_stdout() as show:
            answer = complete_chat(url, body, key=key, show=show)
        messages.append({"role": "assistant", "content": answer.text})


def _ask() -> str:
    """Return the next line; nothing at the end of input."""
    has_person = sys.stdin.isatty()
    if has_person:
        print("> ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if has_person and not line:
        print(file=sys.stderr)
    return line.strip()
