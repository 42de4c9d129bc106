"""Server-sent events of a completion stream, as values.

Rule: an end is an end only if the server said so: `finish_reason` or `[DONE]` (fault
B23). A stream that merely stops is a failure, and so is an error frame.
Source: the OpenAI API reference, "Streaming".
"""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["StreamEnd", "StreamProblem", "TextDelta", "parse_event"]

_PREFIX = "data:"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    """A piece of text, with what came in the same chunk.

    `finish_reason` is None until the last piece; `extension` is the chunk's `p2pmoe`
    object where it has one; `usage` the token counts where the chunk carries them.
    """

    text: str
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    extension: Mapping[str, Any] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """The server's own word that the stream is complete."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamProblem:
    """An error frame: what went wrong, in the server's words."""

    kind: str
    message: str


def parse_event(line: str) -> TextDelta | StreamEnd | StreamProblem | None:
    """Return the event on one line of a stream; None for comments and blank lines.

    A line that is no JSON object is a StreamProblem of kind "malformed": whatever sent
    it is not the API we know.
    """
    if not line.startswith(_PREFIX):
        return None
    body = line[len(_PREFIX) :].strip()
    if body == "[DONE]":
        return StreamEnd()
    try:
        chunk = json.loads(body)
    except (ValueError, RecursionError):
        return StreamProblem(kind="malformed", message=f"not JSON: {body[:80]!r}")
    if not isinstance(chunk, dict):
        return StreamProblem(kind="malformed", message=f"not an object: {body[:80]!r}")
    if isinstance(chunk.get("error"), dict):
        error = chunk["error"]
        return StreamProblem(
            kind=str(error.get("type", "error")),
            message=str(error.get("message", "no reason given")),
        )
    return _delta(chunk)


def _delta(chunk: Mapping[str, Any]) -> TextDelta:
    choices = chunk.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    choice = choice if isinstance(choice, dict) else {}
    delta = choice.get("delta")
    text = choice.get("text")
    if text is None and isinstance(delta, dict):
        text = delta.get("content")
    reason = choice.get("finish_reason")
    return TextDelta(
        text=text if isinstance(text, str) else "",
        finish_reason=reason if isinstance(reason, str) else None,
        usage=_object(chunk.get("usage")),
        extension=_object(chunk.get("p2pmoe")),
    )


def _object(value: object) -> Mapping[str, Any] | None:
    return value if isinstance(value, dict) else None
