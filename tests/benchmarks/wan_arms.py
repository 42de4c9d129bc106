"""The arms of bench-wan: how each backbone is set, and what is asked of all of them.

All arms have the same half of the experts at hand and the same workers; they differ in
one thing each. `naive` does everything in series: it sends, waits, then computes, and
drafts nothing. `plain` overlaps; the others draft, and `auto` chooses by itself.
"""

from dataclasses import dataclass

from tests.benchmarks.wan_backbone import BackboneSetting
from tests.benchmarks.wan_requests import Asked

__all__ = [
    "ALONE",
    "ARMS",
    "DRAFTABLE",
    "NOVEL",
    "Arm",
    "Workload",
    "draftable",
    "novel",
    "openings",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One backbone; arms of one `profile` must give the same tokens."""

    name: str
    setting: BackboneSetting

    @property
    def profile(self) -> str:
        """How results are coded."""
        return self.setting.profile


def _arm(name: str, **changes: object) -> Arm:
    return Arm(name=name, setting=BackboneSetting(model="", data="", **changes))


ARMS: tuple[Arm, ...] = (
    _arm("naive", overlap=False),
    _arm("plain"),
    _arm("ngram", speculate="ngram"),
    _arm("self", speculate="self"),
    _arm("auto", speculate="auto"),
    _arm("auto+prefetch", speculate="auto", prefetch="auto"),
    _arm("auto, no overlap", speculate="auto", overlap=False),
    _arm("auto r8", speculate="auto", profile="r8"),
    _arm("plain r8", profile="r8"),
    _arm("auto r32", speculate="auto", profile="r32"),
    _arm("plain r32", profile="r32"),
    _arm("auto, placed", speculate="auto", by_hand=False),
    _arm("auto+prefetch, placed", speculate="auto", prefetch="auto", by_hand=False),
)
ALONE = _arm("local disk only")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Requests that are asked one after the other; `name` says what kind of text."""

    name: str
    requests: tuple[Asked, ...]


_OPENINGS = (
    "It was a dark night, and the old man",
    "The captain looked at the sea and said that",
    "My dear sister, I write to tell you",
    "In the forest there lived a poor woodcutter who",
    "The letter lay upon the table, and nobody",
    "When the train stopped, a young lady in grey",
    "There was once a king who had three sons, and",
    "The house stood at the end of a long road;",
)
DRAFTABLE = "draftable"
NOVEL = "novel"
_TEMPERATURE = 0.8


def draftable(n_requests: int, n_tokens: int) -> Workload:
    """Return greedy continuations: the pocket model soon repeats itself in them."""
    return Workload(name=DRAFTABLE, requests=_asked(n_requests, n_tokens, 0.0))


def novel(n_requests: int, n_tokens: int) -> Workload:
    """Return continuations drawn at temperature 0.8: nothing in them comes twice."""
    return Workload(name=NOVEL, requests=_asked(n_requests, n_tokens, _TEMPERATURE))


def openings() -> tuple[str, ...]:
    """Return the prompts; use is measured by continuing them otherwise."""
    return _OPENINGS


def _asked(n_requests: int, n_tokens: int, temperature: float) -> tuple[Asked, ...]:
    return tuple(
        Asked(
            prompt=_OPENINGS[number % len(_OPENINGS)],
            n_tokens=n_tokens,
            temperature=temperature,
            seed=number + 1,
        )
        for number in range(n_requests)
    )
