"""How many drafted tokens are accepted: by depth, and for copies by match length.

Estimates are decaying counts that begin with a belief worth a few rounds, so that a
sudden change is followed within some rounds. Each answers with a chain: for depths 1,
2, ... the chance that all tokens down to there are accepted, and the share of rounds
in which a token is drafted at all so deep (a draft may end early). Pure.
"""

from collections.abc import Sequence
from math import exp

__all__ = ["Calibration", "Chain", "DepthAcceptance", "MatchAcceptance"]

Chain = tuple[list[float], list[float]]  # accepted down to a depth, drafted there

_DECAY = 0.97  # of what is known, for each further draft
_DEPTH_WEIGHT = 6.0  # of the pooled estimate, in drafts, at each depth
_REST = 0.998  # what is known fades while nobody drafts

# Match lengths that are judged together, and how often what follows one is right on
# texts of all kinds, until it was seen.
_CLASSES = (0, 0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 7)
_BELIEFS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_MATCH_WEIGHT = 2.0
_MATCH_DECAY = 0.92

_FIRST_POWER = 0.5  # a draft's token is right more often than its own probability
_POWERS = (0.1, 4.0)
_POWER_RATE = 0.05
_LEAST_CHANCE = 1e-6


class DepthAcceptance:
    """Acceptance of a source that drafts token by token."""

    __slots__ = (
        "_accepted",
        "_alive",
        "_asked",
        "_belief",
        "_drafted",
        "_hits",
        "_tries",
        "_weight",
    )

    def __init__(self, belief: float, weight: float, most: int) -> None:
        """Believe in `belief` as if it had been seen in `weight` drafts."""
        self._belief, self._weight = belief, weight
        self._tries = self._hits = 0.0
        self._asked = [0.0] * most  # rounds in which so many were asked for
        self._drafted = [0.0] * most  # and drafted
        self._alive = [0.0] * most  # of the asked, those with all before accepted
        self._accepted = [0.0] * most

    @property
    def tries(self) -> float:
        """How many drafts the estimate rests on, after decay."""
        return self._tries

    @property
    def mean(self) -> float:
        """The chance of a token whose forerunners were accepted, over all depths."""
        return (self._hits + self._belief * self._weight) / (self._tries + self._weight)

    def observe(self, n_asked: int, n_drafted: int, n_accepted: int) -> None:
        """Take in one sequence's draft."""
        n_asked = min(n_asked, len(self._asked))
        for at in range(n_asked):
            alive = 1.0 if n_accepted >= at else 0.0
            accepted = 1.0 if n_accepted > at else 0.0
            self._asked[at] = self._asked[at] * _DECAY + 1.0
            self._drafted[at] = self._drafted[at] * _DECAY + (n_drafted > at)
            self._alive[at] = self._alive[at] * _DECAY + alive
            self._accepted[at] = self._accepted[at] * _DECAY + accepted
        for counts in (self._asked, self._drafted, self._alive, self._accepted):
            counts[n_asked:] = [count * _DECAY for count in counts[n_asked:]]
        judged = min(n_drafted, n_accepted + 1)
        self._tries = self._tries * _DECAY + judged
        self._hits = self._hits * _DECAY + min(n_accepted, judged)

    def rest(self) -> None:
        """Trust what was seen a little less; a round went by without a draft."""
        self._tries *= _REST
        self._hits *= _REST

    def doubt(self, share: float) -> None:
        """Keep only a share of what is known: what is drafted for has changed."""
        for counts in (self._asked, self._drafted, self._alive, self._accepted):
            counts[:] = [count * share for count in counts]
        self._tries *= share
        self._hits *= share

    def chain(self, most: int, *, hopeful: bool = False) -> Chain:
        """Return the chain down to `most`; `hopeful`: as good as it may well be."""
        pooled = self.mean
        if hopeful:
            pooled = min(1.0, pooled + 0.5 * (self._tries + 1.0) ** -0.5)
        reached, share = 1.0, 1.0
        accepted, drafted = [], []
        for at in range(min(most, len(self._asked))):
            alive = self._alive[at] + _DEPTH_WEIGHT
            reached *= (self._accepted[at] + _DEPTH_WEIGHT * pooled) / alive
            asked = self._asked[at] + _DEPTH_WEIGHT
            share = min(share, (self._drafted[at] + _DEPTH_WEIGHT * share) / asked)
            accepted.append(reached)
            drafted.append(share)
        return accepted, drafted


class MatchAcceptance:
    """Acceptance of copies: the longer the match, the likelier what follows it."""

    __slots__ = ("_hits", "_tries")

    def __init__(self) -> None:
        """Begin with beliefs."""
        self._tries = [0.0] * len(_BELIEFS)
        self._hits = [0.0] * len(_BELIEFS)

    def observe(
        self, match: int, n_drafted: int, n_accepted: int, *, was_guessed: bool | None
    ) -> None:
        """Take in one sequence's copy, or what a copy would have begun with."""
        if match <= 0:
            return
        if not n_drafted:
            if was_guessed is not None:
                self._judge(match, was_right=was_guessed)
            return
        for at in range(min(n_drafted, n_accepted + 1)):
            self._judge(match + at, was_right=at < n_accepted)

    def chance(self, match: int) -> float:
        """Return how likely the token that followed a match follows again."""
        at = _CLASSES[min(max(match, 0), len(_CLASSES) - 1)]
        known = self._hits[at] + _MATCH_WEIGHT * _BELIEFS[at]
        return known / (self._tries[at] + _MATCH_WEIGHT)

    def chain(self, matches: Sequence[int], most: int) -> Chain:
        """Return the chain summed over sequences, by each one's match."""
        accepted, drafted = [0.0] * most, [0.0] * most
        chances = [self.chance(match) for match in range(len(_CLASSES))]
        longest = len(chances) - 1
        for match in matches:
            if match <= 0:
                continue
            reached = 1.0
            for at in range(most):
                reached *= chances[min(match + at, longest)]
                accepted[at] += reached
                drafted[at] += 1.0
        return accepted, drafted

    def _judge(self, match: int, *, was_right: bool) -> None:
        at = _CLASSES[min(match, len(_CLASSES) - 1)]
        self._tries[at] = self._tries[at] * _MATCH_DECAY + 1.0
        self._hits[at] = self._hits[at] * _MATCH_DECAY + was_right


class Calibration:
    """How what a drafter says of its tokens relates to how often they are accepted.

    A power of it, so that a product of chances is one of acceptance as well: with the
    power p, tokens of which a drafter says q are accepted as often as q ** p.
    """

    __slots__ = ("power",)

    def __init__(self) -> None:
        """Begin with a belief."""
        self.power = _FIRST_POWER

    def observe(self, chances: Sequence[float], n_accepted: int) -> None:
        """Take in a draft: those accepted, and the first that was not."""
        for at, said in enumerate(chances[: n_accepted + 1]):
            chance: float = min(1.0, max(_LEAST_CHANCE, said)) ** self.power
            off = chance - (at < n_accepted)
            low, high = _POWERS
            self.power = min(high, max(low, self.power * exp(_POWER_RATE * off)))

    def said(self, chance: float) -> float:
        """Return what a drafter says of tokens that are accepted so often."""
        said: float = chance ** (1.0 / self.power)
        return said
