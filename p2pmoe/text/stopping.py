"""Where a completion ends: stop tokens, `max_tokens`, stop strings.

All rules work on accepted blocks of any size and give the same tokens, text and counts
however a sequence is cut into blocks (fault B18): a stop token is counted but not
shown, and nothing after it is either; `max_tokens` counts every token, shown or not;
of a stop string nothing is shown, and the token that completes it is the last counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from p2pmoe.text.detokenizer import Detokenizer
from p2pmoe.text.token_places import PlacedToken, TokenPlaces

__all__ = [
    "BlockCut",
    "CompletionText",
    "Delta",
    "FinishReason",
    "StopFinder",
    "StopRules",
    "cut_block",
]


class FinishReason(StrEnum):
    """Why a generation ended, in OpenAI's words."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"  # told by the API alone: a stop after calls of tools


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRules:
    """What ends a completion; `max_tokens` >= 1, `stop_texts` non-empty strings."""

    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    stop_texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCut:
    """What is left of an accepted block."""

    shown: tuple[int, ...]  # tokens that become text
    n_tokens: int  # tokens that count, a stop token included
    finish: FinishReason | None


def cut_block(tokens: Sequence[int], n_before: int, rules: StopRules) -> BlockCut:
    """Cut a block that follows `n_before` counted tokens at the first end in it.

    Stop strings are not looked at: see `CompletionText`.
    """
    shown: list[int] = []
    for place, token in enumerate(tokens, start=1):
        if token in rules.stop_ids:
            return BlockCut(
                shown=tuple(shown), n_tokens=place, finish=FinishReason.STOP
            )
        shown.append(token)
        if n_before + place >= rules.max_tokens:
            return BlockCut(
                shown=tuple(shown), n_tokens=place, finish=FinishReason.LENGTH
            )
    return BlockCut(shown=tuple(shown), n_tokens=len(shown), finish=None)


class StopFinder:
    """Finds the first stop string in text that comes in pieces."""

    def __init__(self, stops: Sequence[str]) -> None:
        """Look for any of `stops`, all non-empty."""
        self._stops = tuple(stops)
        self._held = ""

    def push(self, piece: str) -> tuple[str, bool]:
        """Return (text that can be shown, whether a stop string was found).

        What may be the beginning of a stop string is held back; after a find there is
        nothing more to come.
        """
        text = self._held + piece
        places = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if places:
            self._held = ""
            return text[: min(places)], True
        kept = self._overlap(text)
        self._held = text[len(text) - kept :]
        return text[: len(text) - kept], False

    def finish(self) -> str:
        """Return what was held back: it turned out to be no stop string."""
        held, self._held = self._held, ""
        return held

    def _overlap(self, text: str) -> int:
        longest = max((len(stop) for stop in self._stops), default=0) - 1
        for size in range(min(longest, len(text)), 0, -1):
            tail = text[-size:]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Text to show after a block, and whether the completion ended with it.

    `placed` are the tokens whose text is now shown, the stop token among them.
    """

    text: str
    finish: FinishReason | None
    placed: tuple[PlacedToken, ...] = ()


class CompletionText:
    """Turns accepted blocks into text until a rule ends the completion."""

    def __init__(self, rules: StopRules, token_bytes: Callable[[int], bytes]) -> None:
        """Start a completion; `token_bytes` gives each token's bytes."""
        self.tokens: list[int] = []  # those that count, a stop token included
        self._rules = rules
        self._token_bytes = token_bytes
        self._characters = Detokenizer()
        self._finder = StopFinder(rules.stop_texts)
        self._places = TokenPlaces()
        self._n_shown = 0
        self._ended = False

    @property
    def n_tokens(self) -> int:
        """How many tokens count so far."""
        return len(self.tokens)

    def accept(self, tokens: Sequence[int]) -> Delta:
        """Take one accepted block; after an end, more tokens are ignored."""
        if self._ended:
            return Delta(text="", finish=None)
        cut = cut_block(tokens, self.n_tokens, self._rules)
        pieces: list[str] = []
        for place, token in enumerate(cut.shown, start=1):
            piece, found = self._push(token)
            pieces.append(piece)
            if found:
                self.tokens += cut.shown[:place]
                return self._cut_off("".join(pieces))
        self.tokens += tokens[: cut.n_tokens]
        if cut.finish is None:
            return self._delta("".join(pieces), None)
        if cut.n_tokens > len(cut.shown):
            self._places.end(tokens[cut.n_tokens - 1])
        rest, found = self._rest()
        if found:
            return self._cut_off("".join(pieces) + rest)
        self._ended = True
        return self._delta("".join(pieces) + rest, cut.finish)

    def finish(self) -> Delta:
        """Return what is held back, for a sequence that ended without a rule."""
        if self._ended:
            return Delta(text="", finish=None)
        rest, found = self._rest()
        if found:
            return self._cut_off(rest)
        self._ended = True
        return self._delta(rest, None)

    def _push(self, token: int) -> tuple[str, bool]:
        own = self._token_bytes(token)
        text = self._characters.push(own)
        self._places.add(token, own, text, self._characters.n_open)
        return self._finder.push(text)

    def _delta(self, text: str, finish: FinishReason | None) -> Delta:
        self._n_shown += len(text)
        placed = self._places.shown(self._n_shown)
        return Delta(text=text, finish=finish, placed=placed)

    def _cut_off(self, text: str) -> Delta:
        """End with a stop string, before which `text` is the last to show."""
        self._ended = True
        self._n_shown += len(text)
        placed = self._places.cut(self._n_shown)
        return Delta(text=text, finish=FinishReason.STOP, placed=placed)

    def _rest(self) -> tuple[str, bool]:
        last = self._characters.finish()
        self._places.finish(last)
        text, found = self._finder.push(last)
        return (text, True) if found else (text + self._finder.finish(), False)
