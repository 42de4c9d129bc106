"""Answers of gpt-oss, which are messages in channels.

    <|channel|>analysis<|message|>...<|end|>
    <|start|>assistant<|channel|>final<|message|>...

What is said in `final` and, without a recipient, in `commentary` is for the reader;
`analysis` is thought. A message to `functions.NAME` is a call. An answer that begins
without a header is all text, and a call whose body is no JSON object is text too.

Source: OpenAI's description of the harmony response format.
"""

from enum import Enum, unique

from p2pmoe.text.tool_calls.bodies import named_call
from p2pmoe.text.tool_calls.calls import CalledTool, Said, Thought
from p2pmoe.text.tool_calls.marks import HARMONY
from p2pmoe.text.tool_calls.tags import n_beginning

__all__ = ["HarmonyReader"]

_CHANNEL, _MESSAGE, _END = (HARMONY[name] for name in ("channel", "message", "end"))
_ENDS = (_END, HARMONY["start"])
_MAX_HEADER = 1000


@unique
class _Part(Enum):
    HEADER = "header"
    SAID = "said"
    THOUGHT = "thought"
    CALL = "call"


class HarmonyReader:
    """Reads one answer, which begins within a header, after `<|start|>assistant`."""

    def __init__(self) -> None:
        """Begin in the header of the first message."""
        self._part = _Part.HEADER
        self._text = ""
        self._recipient = ""
        self._is_first = True

    def push(self, text: str) -> list[Said | Thought | CalledTool]:
        """Return what is certain after this piece."""
        self._text += text
        items: list[Said | Thought | CalledTool] = []
        while self._header() if self._part is _Part.HEADER else self._content(items):
            pass
        return items

    def finish(self) -> list[Said | Thought | CalledTool]:
        """Return what was held back."""
        items: list[Said | Thought | CalledTool] = []
        if self._part is not _Part.HEADER:
            self._tell(self._text, items, is_whole=True)
        elif self._is_first and self._text.strip():
            items.append(Said(self._text))
        self._text = ""
        self._part, self._is_first = _Part.HEADER, False
        return items

    def _header(self) -> bool:
        """Read a header; return whether there is more to do."""
        header, mark, rest = self._text.partition(_MESSAGE)
        if mark:
            self._begin(header)
            self._text = rest
            return True
        if self._is_first and not _may_be_header(self._text):
            self._part = _Part.SAID
            return True
        return False

    def _begin(self, header: str) -> None:
        _, _, named = header.partition(_CHANNEL)
        channel = named.split("<")[0].strip().partition(" ")[0]
        _, mark, rest = header.partition("to=")
        recipient = rest.split("<")[0].partition(" ")[0].strip() if mark else ""
        self._is_first = False
        self._recipient = recipient
        if recipient.startswith("functions."):
            self._part = _Part.CALL
        elif channel == "analysis" or recipient:
            self._part = _Part.THOUGHT
        else:
            self._part = _Part.SAID

    def _content(self, items: list[Said | Thought | CalledTool]) -> bool:
        """Tell a message's text; return whether its end was found."""
        places = [at for mark in _ENDS if (at := self._text.find(mark)) >= 0]
        if places:
            at = min(places)
            self._tell(self._text[:at], items, is_whole=True)
            self._text = self._text[at:].removeprefix(_END)
            self._part = _Part.HEADER
            self._is_first = False
            return True
        if self._part is not _Part.CALL:
            end = len(self._text) - n_beginning(self._text, *_ENDS)
            self._tell(self._text[:end], items, is_whole=False)
            self._text = self._text[end:]
        return False

    def _tell(
        self, text: str, items: list[Said | Thought | CalledTool], *, is_whole: bool
    ) -> None:
        if self._part is _Part.CALL and is_whole:
            call = named_call(self._recipient.removeprefix("functions."), text)
            items.append(call or Said(text))
        elif text:
            items.append(Thought(text) if self._part is _Part.THOUGHT else Said(text))


def _may_be_header(text: str) -> bool:
    """Whether a text may be the beginning of an answer's first header."""
    start = text.lstrip()[: len(_CHANNEL)]
    begins = any(mark.startswith(start[: len(mark)]) for mark in (_CHANNEL, "to="))
    return begins and len(text) <= _MAX_HEADER
