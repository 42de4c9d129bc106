"""Where each token stands in the text of a completion, for its log probability.

A token is told when all of its text is shown, in order: one that ends in mid-character
with the token that completes it, one whose text is held back for a stop string with
the text, or never. Of a token that a stop string cuts, only the bytes before the cut
are its own. So the bytes of all tokens told are the text's, unless the text holds
U+FFFD for bytes that are no character (fault B21).
"""

from collections import deque
from dataclasses import dataclass

__all__ = ["PlacedToken", "TokenPlaces"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedToken:
    """A token that counts: its bytes in the text, which may be none.

    `index` is its number among the tokens that count, `start` the place of its first
    character in the text. `ends` marks a stop token, which is counted but not shown.
    """

    index: int
    token: int
    start: int
    piece: bytes
    ends: bool = False


@dataclass(slots=True, kw_only=True)
class _Waiting:
    placed: PlacedToken
    text: str  # the characters that it completed
    n_open_before: int  # bytes of the first of them that came before it
    end: int | None  # the place after its last character, None while that is open


class TokenPlaces:
    """The tokens of one completion whose text is not shown yet."""

    def __init__(self) -> None:
        """Begin an empty text."""
        self._waiting: deque[_Waiting] = deque()
        self._n_characters = 0
        self._n_tokens = 0
        self._n_open = 0

    def add(self, token: int, piece: bytes, text: str, n_open: int) -> None:
        """Add a token of bytes `piece`, upon which `text` came out of the decoder.

        `n_open` bytes of an unfinished character are held back after it.
        """
        start = self._n_characters
        if text:
            self._close(start + 1)
        self._n_characters += len(text)
        placed = PlacedToken(
            index=self._n_tokens, token=token, start=start, piece=piece
        )
        is_open = n_open > 0 and bool(piece)
        waiting = _Waiting(
            placed=placed,
            text=text,
            n_open_before=self._n_open,
            end=None if is_open else self._n_characters,
        )
        self._waiting.append(waiting)
        self._n_tokens += 1
        self._n_open = n_open

    def end(self, token: int) -> None:
        """Add the stop token."""
        self.add(token, b"", "", self._n_open)
        last = self._waiting[-1]
        last.placed = PlacedToken(
            index=last.placed.index,
            token=token,
            start=last.placed.start,
            piece=b"",
            ends=True,
        )

    def finish(self, text: str) -> None:
        """Take the decoder's last text: what was open stays broken."""
        self._n_characters += len(text)
        self._close(self._n_characters)

    def shown(self, n_characters: int) -> tuple[PlacedToken, ...]:
        """Return the tokens whose text is whole within the first `n_characters`."""
        told = []
        while self._waiting:
            end = self._waiting[0].end
            if end is None or end > n_characters:
                break
            told.append(self._waiting.popleft().placed)
        return tuple(told)

    def cut(self, n_characters: int) -> tuple[PlacedToken, ...]:
        """Return what is left of the tokens when the text is cut there; the last."""
        told = list(self.shown(n_characters))
        if self._waiting and self._waiting[0].placed.start < n_characters:
            told.append(_cut(self._waiting[0], n_characters))
        self._waiting.clear()
        return tuple(told)

    def _close(self, end: int) -> None:
        """Let tokens that end in mid-character end with that character."""
        for waiting in reversed(self._waiting):
            if waiting.end is not None and waiting.placed.piece:
                break
            if waiting.end is None:
                waiting.end = end


def _cut(waiting: _Waiting, n_characters: int) -> PlacedToken:
    placed = waiting.placed
    before = waiting.text[: n_characters - placed.start].encode()
    n_own = max(0, len(before) - waiting.n_open_before)
    return PlacedToken(
        index=placed.index,
        token=placed.token,
        start=placed.start,
        piece=placed.piece[:n_own],
    )
