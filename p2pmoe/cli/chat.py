"""`p2pmoe chat`: a conversation with a running backbone, line by line.

The whole conversation is sent each turn; nothing is kept on disk. A line that is empty,
`/quit` or the end of input leaves; `/reset` forgets what was said. On a terminal an
interrupt stops the answer and not the conversation, and an error is told and the turn
forgotten; elsewhere both end the command.
"""

import sys
from dataclasses import dataclass, field
from typing import Annotated

import typer

__all__ = ["register"]

_HELP = """\
/reset  forget what was said
/help   this list
/quit   leave, as an empty line does
An interrupt (Ctrl-C) stops an answer."""

Url = Annotated[
    str, typer.Option(metavar="URL", help="Where the backbone's API listens.")
]
MaxTokens = Annotated[
    int, typer.Option(metavar="N", help="How many tokens an answer has at most.")
]
Temperature = Annotated[
    float, typer.Option(metavar="T", help="0 takes the likeliest token.")
]
System = Annotated[
    str, typer.Option(metavar="TEXT", help="What the model is told beforehand.")
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
    system: System = "",
    key_file: KeyFile = None,
) -> None:
    """Talk with the model; an empty line ends the conversation, /help lists more."""
    from p2pmoe.cli.api_key import read_api_key

    conversation = _Conversation(
        url=url,
        key=read_api_key(key_file),
        settings={"max_tokens": max_tokens, "temperature": temperature},
        system=system,
        has_person=_has_person(),
    )
    while (line := _ask(conversation.has_person)) not in {"", "/quit"}:
        if line == "/help":
            print(_HELP, file=sys.stderr)
        elif line == "/reset":
            conversation.messages.clear()
        else:
            conversation.turn(line)


@dataclass(kw_only=True)
class _Conversation:
    """What was said so far, and to whom."""

    url: str
    key: str
    settings: dict[str, object]
    system: str
    has_person: bool
    messages: list[dict[str, str]] = field(default_factory=list)

    def turn(self, line: str) -> None:
        """Send a line and show the answer; keep both, or what came of the answer."""
        from p2pmoe.client import ApiError

        said = {"role": "user", "content": line}
        pieces: list[str] = []
        reason: str | None = None
        try:
            reason = self._answer(said, pieces)
        except KeyboardInterrupt:
            if not self.has_person:
                raise
        except ApiError as error:
            if not self.has_person:
                raise
            _tell(error)
            return
        self.messages += [said, {"role": "assistant", "content": "".join(pieces)}]
        if reason == "length":
            print("(cut off here: --max-tokens allows more)", file=sys.stderr)

    def _answer(self, said: dict[str, str], pieces: list[str]) -> str | None:
        """Show the answer and add its pieces; return why it ended."""
        from p2pmoe.cli.text_on_stdout import text_on_stdout
        from p2pmoe.cli.waiting import Waiting
        from p2pmoe.client import complete_chat

        with Waiting("waiting for the answer") as waiting, text_on_stdout() as show:

            def shown(piece: str) -> None:
                waiting.over()
                pieces.append(piece)
                show(piece)

            answer = complete_chat(self.url, self._body(said), key=self.key, show=shown)
        return answer.finish_reason

    def _body(self, said: dict[str, str]) -> dict[str, object]:
        system = [{"role": "system", "content": self.system}] if self.system else []
        return {"messages": [*system, *self.messages, said], **self.settings}


def _tell(error: Exception) -> None:
    """Print an error as `main` would, and go on."""
    from p2pmoe.cli.complaints import complaint_of

    complaint = complaint_of(error)
    print(f"error: {complaint.line if complaint else error}", file=sys.stderr)


def _has_person() -> bool:
    return sys.stdin.isatty()


def _ask(has_person: bool) -> str:
    """Return the next line; nothing at the end of input."""
    if has_person:
        print("> ", end="", file=sys.stderr, flush=True)
    try:
        line = sys.stdin.readline()
    except UnicodeDecodeError as error:
        from p2pmoe.errors import ConfigurationError

        raise ConfigurationError("the input is not UTF-8") from error
    if has_person and not line:
        print(file=sys.stderr)
    return line.strip()
