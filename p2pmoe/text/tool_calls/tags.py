"""A reader for formats whose calls stand between an opening and a closing mark.

Text before and between calls is text for the reader, without the whitespace next to a
call. What stands between marks and is no call stays text, marks and all: a model's
mistake is shown, never an error. At the end of an answer the closing mark may be
missing, as models leave it out before their end of turn.
"""

from collections.abc import Callable, Sequence

from p2pmoe.text.tool_calls.calls import CalledTool, Said, Thought

__all__ = ["ReadBody", "TaggedReader", "n_beginning"]

ReadBody = Callable[[str], Sequence[CalledTool]]


class TaggedReader:
    """Reads one answer; `read_body` makes calls of a body, none if it is no call."""

    def __init__(self, opening: str, closing: str, read_body: ReadBody) -> None:
        """Begin outside of a call; an empty closing mark means the answer's end."""
        self._opening = opening
        self._closing = closing
        self._read_body = read_body
        self._text = ""  # not told yet; within a call, its body so far
        self._space = ""  # whitespace before the call that is being read
        self._is_inside = False
        self._n_searched = 0  # of a body, where no closing mark begins
        self._after_call = False

    def push(self, text: str) -> list[Said | Thought | CalledTool]:
        """Return what is certain after this piece."""
        self._text += text
        items: list[Said | Thought | CalledTool] = []
        while self._inside(items) if self._is_inside else self._outside(items):
            pass
        return items

    def finish(self) -> list[Said | Thought | CalledTool]:
        """Return what was held back."""
        items: list[Said | Thought | CalledTool] = []
        if self._is_inside:
            self._close(self._text, "", items)
        elif self._text and not (self._after_call and self._text.isspace()):
            items.append(Said(self._text))
        self._text = ""
        return items

    def _outside(self, items: list[Said | Thought | CalledTool]) -> bool:
        """Tell text up to an opening mark; return whether one was found."""
        at = self._text.find(self._opening)
        end = (
            at if at >= 0 else len(self._text) - n_beginning(self._text, self._opening)
        )
        said = self._text[:end].rstrip()
        if self._after_call:
            said = said.lstrip()
        if said:
            items.append(Said(said))
            self._after_call = False
        space = self._text[:end][len(self._text[:end].rstrip()) :]
        if at < 0:
            self._text = space + self._text[end:]
            return False
        self._space = "" if self._after_call else space
        self._text = self._text[at + len(self._opening) :]
        self._is_inside = True
        self._n_searched = 0
        return True

    def _inside(self, items: list[Said | Thought | CalledTool]) -> bool:
        """Read a body up to its closing mark; return whether that was found."""
        at = self._text.find(self._closing, self._n_searched) if self._closing else -1
        if at < 0:
            self._n_searched = max(0, len(self._text) - len(self._closing))
            return False
        body, rest = self._text[:at], self._text[at + len(self._closing) :]
        self._close(body, self._closing, items)
        self._text = rest
        return True

    def _close(
        self, body: str, closing: str, items: list[Said | Thought | CalledTool]
    ) -> None:
        calls = self._read_body(body)
        if calls:
            items += calls
        else:
            items.append(Said(self._space + self._opening + body + closing))
        self._after_call = bool(calls)
        self._is_inside = False


def n_beginning(text: str, *marks: str) -> int:
    """Return how many last characters may be the beginning of one of `marks`."""
    longest = max(map(len, marks)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return size
    return 0
