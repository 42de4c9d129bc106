"""Bytes of tokens to text, piece by piece, never cutting a character (fault B21).

A piece is held back until its last character is whole; bytes that can become no
character turn into U+FFFD. All pieces together are the text that decoding everything
at once would give.
"""

import codecs

__all__ = ["Detokenizer"]


class Detokenizer:
    """The UTF-8 state of one completion."""

    def __init__(self) -> None:
        """Start with nothing held back."""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    @property
    def n_open(self) -> int:
        """How many bytes are held back, of a character that is not whole."""
        return len(self._decoder.getstate()[0])

    def push(self, piece: bytes) -> str:
        """Return the characters that are whole after this token's bytes."""
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """Return U+FFFD if a character was left unfinished, else nothing."""
        return self._decoder.decode(b"", final=True)
