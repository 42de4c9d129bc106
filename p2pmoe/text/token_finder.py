"""Finding token texts in a text: leftmost, longest, whatever their number.

A pattern of alternatives would try thousands of them at each place. Here a place is
looked at only if its first two characters begin a token, and then once for each length
that such tokens have: a vocabulary with all its texts of one form stays fast.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["TokenFinder"]

_NEVER = re.compile(r"(?!)")


class TokenFinder:
    """A set of token texts to look for; may be shared between threads."""

    def __init__(self, texts: Iterable[str]) -> None:
        """Prepare the search; empty texts are never found."""
        self._texts = frozenset(text for text in texts if text)
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {
            start: tuple(sorted(found, reverse=True))
            for start, found in lengths.items()
        }
        self._places = _any_of({text[0] for text in self._texts})
        self._forwards = sorted(self._texts)
        self._backwards = sorted(text[::-1] for text in self._texts)
        self._joined = "\0".join(self._texts)
        self._longest = max(map(len, self._texts), default=0)

    def __len__(self) -> int:
        return len(self._texts)

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each token in turn, none overlapping another."""
        at = 0
        while (place := self._places.search(text, at)) is not None:
            start = place.start()
            n = self._length_at(text, start)
            if n:
                yield start, start + n
            at = start + max(n, 1)

    def starts(self, text: str) -> list[int]:
        """Return every place where some token begins, overlapping ones too."""
        found = (place.start() for place in self._places.finditer(text))
        return [start for start in found if self._length_at(text, start)]

    def may_end(self, text: str) -> bool:
        """Whether a token could begin at the end of `text`, or hold all of it."""
        tails = (text[-n:] for n in range(1, min(self._longest, len(text)) + 1))
        begins = any(_begins_one(self._forwards, tail) for tail in tails)
        return begins or self._within(text)

    def may_begin(self, text: str) -> bool:
        """Whether a token could end at the beginning of `text`, or hold all of it."""
        heads = (text[:n] for n in range(1, min(self._longest, len(text)) + 1))
        ends = any(_begins_one(self._backwards, head[::-1]) for head in heads)
        return ends or self._within(text)

    def _within(self, text: str) -> bool:
        return len(text) <= self._longest and text in self._joined

    def _length_at(self, text: str, start: int) -> int:
        pair = text[start : start + 2]
        for key in (pair, pair[:1]):
            for n in self._lengths.get(key, ()):
                found = text[start : start + n]  # shorter at the end of the text
                if found in self._texts:
                    return len(found)
        return 0


def _begins_one(texts: Sequence[str], start: str) -> bool:
    """Whether some of the sorted `texts` begins with `start` and goes on."""
    place = bisect_right(texts, start)
    return place < len(texts) and texts[place].startswith(start)


def _any_of(characters: set[str]) -> re.Pattern[str]:
    if not characters:
        return _NEVER
    return re.compile("[" + "".join(map(re.escape, sorted(characters))) + "]")
