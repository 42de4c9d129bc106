"""Chooses by figures who drafts, and how much, so that tokens come fastest.

Before each round every option (a source, a number of drafts, fetching ahead or not) is
given its expected tokens, from acceptance so far, and its time, from passes so far; the
quickest is taken if it is quicker than decoding plainly by more than measurement can
tell. What is not known is tried where it may pay; and whatever is done must be covered
by an allowance of time (allowance.py), which is what bounds the loss: never more than 5
% slower than without drafts. Plain rounds come between now and then, as the measure.

A round is worth another draft if the token it may give is worth the time of its row, at
the rate that tokens come at: that is `RoundPlan.floor`. Pure: one lane's, no clock.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from p2pmoe.backbone.speculation.acceptance import (
    Calibration,
    Chain,
    DepthAcceptance,
    MatchAcceptance,
)
from p2pmoe.backbone.speculation.allowance import Allowance
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.options import (
    Option,
    Way,
    larger,
    quickest,
    why,
    why_plain,
)
from p2pmoe.backbone.speculation.pass_cost import PassCost
from p2pmoe.backbone.speculation.rounds import (
    RoundOutcome,
    RoundPlan,
    RoundQuestion,
)

__all__ = ["Controller"]

_FIRST = 3  # plain rounds before anything is drafted
_FIRST_MOST = 8  # if they differ much
_SURE = 0.15  # how far off, relative, what a plain round takes may be
_PROBE = 48  # rounds after which one decodes plainly, as the measure
_MARGIN = 1.02  # times as quick as plain decoding: less cannot be told
_HOPE = 1.1  # times as quick as the best known, to be worth a try
_HOPE_SHARE = 0.5  # of the allowance may be lost by a try
_TRY = 3  # rounds for each that tries more drafts than were seen to be the best
_PAUSE = 8  # rounds for which a way that does not pay is not looked at again
_BELIEFS = {DraftSource.SELF: 0.65, DraftSource.MODEL: 0.5, DraftSource.MTP: 0.6}
_BELIEF_WEIGHT = 10.0
_DOUBT = 0.5  # what is kept of acceptance when another request begins
_MEAN = 0.15  # of a new figure in the mean of drafting's time
_STEPS = {DraftSource.SELF: 1.0}  # of a pass's compute, until drafting was measured
_OTHER_STEP = 0.3
_STALL = 2.0  # times as long as expected: what is longer is nobody's fault
_PREFETCH_TRIPS = 2.0  # waits of a pass whose experts were fetched, until measured
_PREFETCH_ROW = 0.1  # of such a pass, for each further row, waits and all
_HIGHEST_FLOOR = 0.25  # of chances: what is cut is never seen to have been right
_FLOOR_TRIES = 8.0
_NO_FETCH = (2, 24)  # rounds without one after one that fetched nothing; it doubles
_WARM = 1  # fetches whose time says little: credit and links grow with the first
_AT_ONCE = (DraftSource.NGRAM, None)  # which are drafted at once, if at all
_LONGEST = 86_400.0  # seconds that a round may take: a clock that says more has jumped
_MEASURES = RoundPlan(why="plain: measures what a pass takes")


class Controller:
    """The `Chooser` of a lane; `n_layers` of the model are routed."""

    def __init__(self, n_layers: int, most: int = 16) -> None:
        """Begin with beliefs; at most `most` tokens are drafted for a sequence."""
        self._most = most
        self._plain = PassCost(n_layers)
        self._fetched = PassCost(n_layers, _PREFETCH_ROW)  # waits are no trips there
        self._depths = {
            source: DepthAcceptance(belief, _BELIEF_WEIGHT, most)
            for source, belief in _BELIEFS.items()
        }
        self._calibrations = {source: Calibration() for source in _BELIEFS}
        self._matches = MatchAcceptance()
        self._draft_s: dict[tuple[DraftSource | None, bool], float] = {}
        self._allowance = Allowance()
        self._numbers: frozenset[int] = frozenset()
        self._n_rounds = 0
        self._n_plain = 0
        self._since_plain = 0
        self._paused: dict[tuple[DraftSource | None, bool, bool], int] = {}
        self._no_fetch_until = 0
        self._no_fetch_pause = _NO_FETCH[0]
        self._n_fetches = 0
        self._refused: Option | None = None  # the quickest of those that do not pay
        self._why_plain = "plain: nobody has a draft"

    # Before a round.

    def choose(self, question: RoundQuestion) -> RoundPlan:
        """Return how the next round is to draft."""
        n = question.n_sequences
        base = n + question.n_other_rows
        self._n_rounds += 1
        if not self._numbers.issuperset(question.numbers):
            self._meet(question.numbers, self._plain.seconds(base))
        if self._n_plain < _FIRST:
            return _MEASURES
        if self._since_plain >= _PROBE:
            return RoundPlan(why="plain: measures what a pass takes without drafts")
        if not self._has_ways(question):
            return RoundPlan(why=self._why_plain)
        error = min(0.9, self._plain.error(base))
        if self._n_plain < _FIRST_MOST and error > _SURE:
            return _MEASURES
        plain = Option(Way(None), 0, float(n), self._plain.seconds(base))
        needed = plain.rate * max(_MARGIN, 1.0 / (1.0 - error))
        best = self._best(question, plain, needed)
        if best is None:
            self._why_plain = why_plain(plain, self._refused)
            return RoundPlan(why=self._why_plain)
        return RoundPlan(
            source=best.way.source,
            n_drafts=best.n_drafts,
            prefetch=best.way.prefetch,
            prefetch_s=self._longest_fetch(best, plain),
            floor=self._floor(best),
            why=why(best, plain),
        )

    def _best(
        self, question: RoundQuestion, plain: Option, needed: float
    ) -> Option | None:
        """Return the option to take; None if none is better than `needed`."""
        best = hope = refused = larger_one = None
        round_ = question.n_sequences, question.n_sequences + question.n_other_rows
        left = self._allowance.seconds
        for way, chain in self._ways(question):
            most_s = plain.seconds + (left * _HOPE_SHARE if way.is_hope else left)
            pass_s = partial(self._pass_s, way)
            option, any_option = quickest(way, chain, round_, pass_s, most_s)
            aim = needed * _HOPE if way.is_hope else needed
            if any_option is None or any_option.rate <= aim:
                key = way.source, way.prefetch, way.is_hope
                self._paused[key] = self._n_rounds + _PAUSE
            if option is None or option.rate <= aim:
                if not way.is_hope and (
                    refused is None or (any_option and any_option.rate > refused.rate)
                ):
                    refused = any_option
            elif way.is_hope:
                hope = option if hope is None or option.rate > hope.rate else hope
            elif best is None or option.rate > best.rate:
                best = option
                larger_one = larger(option, chain, round_, pass_s)
        self._refused = refused or self._refused
        if hope is not None and (best is None or hope.rate > _HOPE * best.rate):
            return hope
        if larger_one is not None and self._is_worth_a_try(larger_one, plain):
            return larger_one
        return best

    def _is_worth_a_try(self, option: Option, plain: Option) -> bool:
        """Whether to look what a pass takes that is larger than those chosen."""
        cost = self._fetched if option.way.prefetch else self._plain
        loses = option.seconds - plain.seconds
        return (
            self._n_rounds % _TRY == 0
            and cost.n_of(option.rows) < _FIRST
            and loses <= self._allowance.seconds * _HOPE_SHARE
        )

    def _has_ways(self, question: RoundQuestion) -> bool:
        """Whether there is anything to look at: mostly there is not, in plain text."""
        if question.most < 1:
            return False
        ways = ((False, False), (False, True), (True, False), (True, True))
        for source in question.sources:
            if source is DraftSource.NGRAM:
                if any(question.matches):
                    return True
                continue
            for prefetch, is_hope in ways[: 4 if question.can_prefetch else 2]:
                if self._n_rounds >= self._paused.get((source, prefetch, is_hope), 0):
                    return True
        return False

    def _ways(self, question: RoundQuestion) -> Iterator[tuple[Way, Chain]]:
        """Yield the ways to look at, and how far each is accepted."""
        n, most = question.n_sequences, min(question.most, self._most)
        fetches = question.can_prefetch and self._n_rounds >= self._no_fetch_until
        prefetches = (False, True) if fetches else (False,)
        copies = any(question.matches)
        for source in question.sources if most > 0 else ():
            if source is DraftSource.NGRAM:
                if copies:
                    chain = self._matches.chain(question.matches, most)
                    for prefetch in prefetches:
                        yield self._way(source, n, prefetch=prefetch), chain
                continue
            for is_hope in (False, True):
                chains: Chain | None = None
                for prefetch in prefetches:
                    until = self._paused.get((source, prefetch, is_hope), 0)
                    if self._n_rounds < until:
                        continue
                    if chains is None:
                        own = self._depths[source].chain(most, hopeful=is_hope)
                        chains = _times(own, n)
                    way = self._way(source, n, prefetch=prefetch, is_hope=is_hope)
                    yield way, chains

    def _way(
        self,
        source: DraftSource | None,
        n: int,
        *,
        prefetch: bool = False,
        is_hope: bool = False,
    ) -> Way:
        known = self._draft_s.get((source, prefetch))
        if source in _AT_ONCE:
            if known is None:  # to foresee experts takes a pass of its own
                known = self._plain.compute_s(n) if prefetch else 0.0
            return Way(source, prefetch, is_hope, known, 0.0)
        if known is None:
            known = _STEPS.get(source, _OTHER_STEP) * self._plain.compute_s(n)
        return Way(source, prefetch, is_hope, 0.0, known)

    def _pass_s(self, way: Way, rows: float) -> float:
        if not way.prefetch:
            return self._plain.seconds(rows, hopeful=way.is_hope)
        if self._fetched.n >= (_FIRST if way.is_hope else 1):
            return self._fetched.seconds(rows, hopeful=way.is_hope)
        trips = 1.0 if way.is_hope else _PREFETCH_TRIPS
        waits = min(trips * self._plain.trip_s, self._plain.seconds(rows))
        return self._plain.compute_s(rows) + waits

    def _longest_fetch(self, best: Option, plain: Option) -> float:
        """Return how long a round may wait for weights, at the worst."""
        if not best.way.prefetch:
            return 0.0
        if self._fetched.n >= _FIRST:
            return _STALL * best.seconds
        covered = self._allowance.seconds + plain.seconds - best.seconds
        return max(0.0, covered) + self._plain.trip_s

    def _floor(self, best: Option) -> float:
        """Return which chance a further draft must have to be worth its row."""
        source = best.way.source
        known = None if source is None else self._depths.get(source)
        if source is None or known is None or best.way.is_hope:
            return 0.0
        if known.tries < _FLOOR_TRIES:
            return 0.0  # what is not drafted teaches nothing
        chance = min(_HIGHEST_FLOOR, best.rate * best.row_s)
        return self._calibrations[source].said(chance)

    def _meet(self, numbers: Sequence[int], plain_s: float) -> None:
        """Note which sequences a round is about: another request begins anew."""
        if self._n_plain >= _FIRST:
            self._allowance.renew(plain_s, fresh=False)
        for known in self._depths.values():
            known.doubt(_DOUBT)
        self._paused.clear()
        self._numbers = frozenset(numbers)

    # After it.

    def observe(self, outcome: RoundOutcome) -> None:
        """Take in what came of a round, if its times may be true."""
        times = (outcome.draft_s, outcome.pass_s, outcome.wait_s, outcome.fetch_s)
        if not all(0.0 <= time_s <= _LONGEST for time_s in times):  # nor NaN
            return
        plan = outcome.plan
        n_drafted = sum(own.n_drafted for own in outcome.sequences)
        changes = self._plain.n_changes + self._fetched.n_changes
        fetched = outcome.fetch_s > 0.0
        if fetched:
            self._no_fetch_pause = _NO_FETCH[0]
            self._n_fetches += 1
            if self._n_fetches > _WARM:
                self._fetched.observe(outcome.n_rows, outcome.pass_s, 0.0, 0)
        else:
            if plan.prefetch:  # links are not known yet, or nothing was worth it
                self._no_fetch_until = self._n_rounds + self._no_fetch_pause
                self._no_fetch_pause = min(2 * self._no_fetch_pause, _NO_FETCH[1])
            self._plain.observe(
                outcome.n_rows, outcome.pass_s, outcome.wait_s, outcome.n_trips
            )
        self._learn(outcome)
        base = outcome.n_rows - n_drafted
        if n_drafted or fetched:
            self._since_plain += 1
            if self._plain.n_changes + self._fetched.n_changes > changes:
                self._since_plain = _PROBE  # times have changed, maybe all of them
        else:
            self._since_plain = 0
            self._n_plain += 1
            if self._n_plain == _FIRST:
                self._allowance.renew(self._plain.seconds(base), fresh=True)
        self._account(outcome, base)

    def _account(self, outcome: RoundOutcome, base: int) -> None:
        """Book what a round has lost, or saved; a stall is not all its fault."""
        plan, n = outcome.plan, len(outcome.sequences)
        if plan.source is None and not plan.prefetch:
            self._allowance.pass_by(outcome.pass_s, 0.0, outcome.pass_s)
            return
        plain_s = self._plain.seconds(base)
        cost = self._fetched if outcome.fetch_s > 0.0 else self._plain
        most_s = _STALL * cost.seconds(outcome.n_rows)
        spent_s = min(outcome.pass_s, most_s) + outcome.draft_s
        n_committed = n + sum(own.n_accepted for own in outcome.sequences)
        # As if plain decoding were as quick as it may well be.
        sure_s = plain_s * max(0.0, 1.0 - self._plain.error(base))
        lost_s = spent_s - sure_s * n_committed / max(1, n)
        self._allowance.pass_by(spent_s, lost_s, plain_s)

    def _learn(self, outcome: RoundOutcome) -> None:
        plan = outcome.plan
        copies = plan.source is DraftSource.NGRAM
        drafter = None if plan.source is None else self._depths.get(plan.source)
        for own in outcome.sequences:
            self._matches.observe(
                own.match,
                own.n_drafted if copies else 0,
                own.n_accepted if copies else 0,
                was_guessed=own.was_guessed,
            )
            if drafter is not None and plan.source is not None:
                drafter.observe(plan.n_drafts, own.n_drafted, own.n_accepted)
                self._calibrations[plan.source].observe(own.chances, own.n_accepted)
        for known in self._depths.values():
            if known is not drafter:
                known.rest()
        longest = max((own.n_drafted for own in outcome.sequences), default=0)
        if plan.prefetch or (plan.source is not None and longest):
            new = outcome.draft_s
            if plan.source not in _AT_ONCE:
                new /= max(1, longest)
            way = plan.source, plan.prefetch
            mean = self._draft_s.get(way, new)
            self._draft_s[way] = mean + _MEAN * (new - mean)


def _times(chain: Chain, n: int) -> Chain:
    if n == 1:
        return chain
    accepted, drafted = chain
    return [n * own for own in accepted], [n * own for own in drafted]
