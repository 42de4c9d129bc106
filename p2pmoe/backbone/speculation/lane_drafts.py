"""A lane's rounds, as far as drafts go: asked for, drafted, and told about.

    choose    which source, and how many tokens for each sequence that decodes
    prepare   drafts tokens of all of them, what was drafted in flight first, and
              foresees which experts the pass will lack
    prefetch  has their weights fetched, if the plan says so
    begin_in_flight
              goes on behind the drafts while their verification waits for workers
    end       what was accepted: counted, told to the chooser; what was drafted in
              flight is the next round's beginning if it was right so far

Nothing here can fail a request: drafters are guarded, and a chooser that raises means
plain decoding. For the lane's thread.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafted import (
    Ahead,
    Guess,
    Round,
    cut,
    joined,
    wish_of,
)
from p2pmoe.backbone.speculation.drafts import Draft, Drafter, DraftSource
from p2pmoe.backbone.speculation.guarded import Guards
from p2pmoe.backbone.speculation.in_flight import InFlight, Pace
from p2pmoe.backbone.speculation.rounds import (
    RoundOutcome,
    RoundPlan,
    RoundQuestion,
    SequenceOutcome,
)
from p2pmoe.backbone.speculation.speculation import Speculation
from p2pmoe.backbone.speculation.verify import Verified
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.model.model import Model

__all__ = ["LaneDrafts"]

log = logging.getLogger("p2pmoe.speculation")

T = TypeVar("T")

_FAILED: Final = "drafting failed; tokens are decoded plainly"
_PAUSE: Final = 16  # rounds without drafts after a pass that failed with them


class LaneDrafts:
    """All that a lane drafts; see the module."""

    def __init__(
        self, speculation: Speculation, model: Model, monotonic: Callable[[], float]
    ) -> None:
        """Begin with nothing drafted."""
        self.speculation = speculation
        self._monotonic = monotonic
        self._guards = Guards(model.description.n_vocab)
        self._routed = sorted(model.routers())
        self._matcher = speculation.matcher()
        self._ahead: dict[int, Ahead] = {}
        self._known: set[int] = set()
        self._pause = 0
        self._pace = Pace()
        self._told: set[str] = set()  # complaints that were logged

    def safely(self, act: Callable[[], T], what: str = _FAILED) -> T | None:
        """Return what drafting gives; None if it fails, for no request is worth it.

        The first failure of a kind is logged with its traceback.
        """
        try:
            return act()
        except Exception:
            level = logging.DEBUG if what in self._told else logging.ERROR
            self._told.add(what)
            log.log(level, what, exc_info=True)
            return None

    # Before the pass.

    def choose(
        self, sequences: Sequence[SequenceState], n_free: int, n_other: int
    ) -> Round:
        """Choose for sequences that decode, beside `n_other` rows of prompts.

        `n_free` more rows may be in the step.
        """
        speculation = self.speculation
        left = [s.request.max_tokens - s.n_drawn - 1 for s in sequences]
        most = min(speculation.max_drafts, n_free // len(sequences), max(left))
        sources = frozenset(
            own.source
            for own in speculation.drafters
            if any(self._guards.allow(own.source, s.number) for s in sequences)
        )
        guesses = {s: self._guess(s) for s in sequences}
        self._known.update(s.number for s in sequences)
        plan = RoundPlan()
        if self._pause:
            self._pause -= 1
        elif most > 0 and sources:
            plan = self._asked(
                RoundQuestion(
                    n_sequences=len(sequences),
                    most=most,
                    sources=sources,
                    matches=[guess.match for guess in guesses.values()],
                    numbers=[s.number for s in sequences],
                    n_other_rows=n_other,
                    can_prefetch=speculation.prefetch is not None,
                )
            )
        round_ = Round(plan=plan, guesses=guesses)
        if plan.source is None or speculation.drafter(plan.source) is None:
            return round_
        for sequence, own in zip(sequences, left, strict=True):
            n = min(plan.n_drafts, most, own)
            if n > 0 and self._guards.allow(plan.source, sequence.number):
                round_.wanted[sequence] = n
        return round_

    def prepare(self, round_: Round) -> Round:
        """Draft, and foresee what the pass will need; return the round."""
        self.draft(round_)
        self.foresee(round_)
        return round_

    def draft(self, round_: Round) -> None:
        """Draft what is wanted, as far as there is room in the caches."""
        source = round_.plan.source
        drafter = None if source is None else self.speculation.drafter(source)
        if drafter is None or not round_.wanted:
            return
        began = self._monotonic()
        kept = {s: self._kept(s, n, source) for s, n in round_.wanted.items()}
        more = self._drafted(drafter, round_.wanted, kept, round_.plan.floor)
        for sequence in round_.wanted:
            draft = joined(kept[sequence], more.get(sequence))
            if draft is not None:
                draft = cut(draft, sequence, round_.plan.floor)
            if draft is not None and draft.tokens:
                round_.drafts[sequence] = draft
        round_.draft_s = self._monotonic() - began

    def foresee(self, round_: Round) -> None:
        """Say which experts that are not at hand the round's pass will likely need.

        What was not drafted by who foresees is looked at in one go.
        """
        if not round_.plan.prefetch or self.speculation.prefetch is None:
            return
        foreseer = self.speculation.foreseer()
        began = self._monotonic()
        drafts = round_.drafts
        round_.foreseen = [own.foreseen for own in drafts.values() if own.foreseen]
        blind = [s for s in round_.guesses if s not in drafts or not drafts[s].foreseen]
        asked = [
            (wish, round_.tokens(sequence))
            for sequence in blind
            if (wish := wish_of(sequence, None, max(1, len(round_.tokens(sequence)))))
        ]
        if foreseer is not None and asked:
            wishes, tokens = zip(*asked, strict=True)
            found = self.safely(
                partial(foreseer.foresee, wishes, tokens),
                "nothing is foreseen for a round",
            )
            round_.foreseen += found or ()
        round_.draft_s += self._monotonic() - began

    def _drafted(
        self,
        drafter: Drafter,
        wanted: Mapping[SequenceState, int],
        kept: Mapping[SequenceState, Draft | None],
        floor: float,
    ) -> dict[SequenceState, Draft]:
        asking, wishes = [], []
        for sequence, n in wanted.items():
            wish = wish_of(sequence, kept[sequence], n, floor)
            if wish is not None:
                asking.append(sequence)
                wishes.append(wish)
        if not wishes:
            return {}
        drafting = self._guards.begin(drafter, wishes)
        while drafting.advance():
            if all(sequence.trace.cancelled for sequence in asking):
                break
        return dict(zip(asking, drafting.drafts(), strict=True))

    def _kept(
        self, sequence: SequenceState, n: int, source: DraftSource | None
    ) -> Draft | None:
        """Take what was drafted in flight, if it is still right."""
        ahead = self._ahead.pop(sequence.number, None)
        if ahead is None or not ahead.fits(sequence, source):
            return None
        draft = ahead.draft
        return Draft(
            source=draft.source,
            tokens=draft.tokens[:n],
            chances=draft.chances[:n],
            foreseen=draft.foreseen,
        )

    def _guess(self, sequence: SequenceState) -> Guess:
        matcher, source = self._matcher, DraftSource.NGRAM
        if matcher is None or not self._guards.allow(source, sequence.number):
            return Guess()
        try:
            start, length = matcher.find(sequence.number, sequence.tokens)
            return Guess(length, sequence.tokens[start]) if length else Guess()
        except Exception as error:  # noqa: BLE001 - as in `Guards`
            self._guards.refuse(source, [sequence.number], error)
            return Guess()

    def _asked(self, question: RoundQuestion) -> RoundPlan:
        choose = partial(self.speculation.chooser.choose, question)
        plan = self.safely(choose, "a round is decoded plainly: its chooser failed")
        return plan or RoundPlan()

    # While it is under way.

    def prefetch(self, round_: Round, step: StepTrace, deadline: float) -> None:
        """Fetch the weights that the round foresees, if its plan says so."""
        fetching = self.speculation.prefetch
        if fetching is not None and round_.foreseen:
            until = self._monotonic() + round_.plan.prefetch_s
            fetch = partial(fetching.fetch, round_.foreseen, step)
            self.safely(
                partial(fetch, min(deadline, until)), "nothing is fetched for a round"
            )

    def begin_in_flight(self, round_: Round) -> InFlight | None:
        """Begin to draft behind the drafts; None where there is nothing to do."""
        source = round_.plan.source
        if not self.speculation.in_flight or source is None or not round_.drafts:
            return None
        drafter = self.speculation.drafter(source)
        if drafter is None or source is DraftSource.NGRAM:  # which takes no time
            return None
        asking, wishes = [], []
        for sequence, draft in round_.drafts.items():
            if draft.tokens[-1] in sequence.request.stop_ids:
                continue  # nothing comes behind it
            if not self._guards.allow(source, sequence.number):
                continue
            behind = len(draft.tokens) + 1  # with the guess of what comes after them
            left = sequence.request.max_tokens - sequence.n_drawn - behind - 1
            n = behind + min(round_.plan.n_drafts, left)
            wish = wish_of(sequence, draft, n) if left > 0 else None
            if wish is not None:
                asking.append(sequence)
                wishes.append(wish)
        if not wishes:
            return None
        round_.in_flight = InFlight(
            drafting=self._guards.begin(drafter, wishes),
            sequences=asking,
            wishes=wishes,
            routed=self._routed,
            pace=self._pace,
            monotonic=self._monotonic,
        )
        return round_.in_flight

    # After it.

    def failed(self, round_: Round) -> None:
        """Note that a pass failed, maybe because of its drafts; they are given up."""
        round_.give_up()
        self.speculation.counts.n_failed += 1
        self._pause = _PAUSE

    def end(
        self,
        round_: Round,
        verified: Mapping[SequenceState, Verified],
        step: StepTrace,
        pass_s: float,
    ) -> None:
        """Take in what a pass committed for the sequences of the round."""
        self._keep_ahead(round_, verified)
        outcomes = []
        for sequence, guess in round_.guesses.items():
            own = verified.get(sequence)
            if own is None or not own.tokens:
                continue
            was_guessed = None if not guess.match else own.tokens[0] == guess.token
            outcomes.append(
                SequenceOutcome(
                    source=round_.plan.source if own.n_drafted else None,
                    n_drafted=own.n_drafted,
                    n_accepted=own.n_accepted,
                    chances=round_.chances(sequence)[: own.n_drafted],
                    match=guess.match,
                    was_guessed=was_guessed,
                )
            )
        self._count(outcomes, verified)
        if not outcomes:
            return
        hidden_s = 0.0 if round_.in_flight is None else round_.in_flight.spent_s
        outcome = RoundOutcome(
            plan=round_.plan,
            sequences=outcomes,
            n_rows=step.n_rows,
            draft_s=round_.draft_s,
            pass_s=pass_s,
            wait_s=step.record.wait_s + hidden_s,
            n_trips=step.record.n_trips,
            fetch_s=step.record.prefetch_s,
        )
        observe = partial(self.speculation.chooser.observe, outcome)
        self.safely(observe, "a chooser did not take in a round")

    def _keep_ahead(
        self, round_: Round, verified: Mapping[SequenceState, Verified]
    ) -> None:
        if round_.in_flight is None:
            return
        for sequence, draft in round_.in_flight.drafts():
            own, cache = verified.get(sequence), sequence.cache
            if own is None or cache is None or len(draft.tokens) < 2:
                continue
            n_right = len(round_.tokens(sequence)) + 1
            if len(own.tokens) == n_right and own.tokens[-1] == draft.tokens[0]:
                self._ahead[sequence.number] = Ahead(
                    draft=Draft(
                        source=draft.source,
                        tokens=draft.tokens[1:],
                        chances=draft.chances[1:],
                        foreseen=draft.foreseen,
                    ),
                    n_tokens=len(sequence.tokens),
                    cache=cache,
                    capacity=cache.capacity,
                )

    def _count(
        self,
        outcomes: Sequence[SequenceOutcome],
        verified: Mapping[SequenceState, Verified],
    ) -> None:
        counts = self.speculation.counts
        counts.n_passes += len(outcomes)
        drafted = None
        for own in outcomes:
            source = own.source
            if source is None or not own.n_drafted:
                continue
            drafted = source
            before = counts.n_drafted.get(source, 0), counts.n_accepted.get(source, 0)
            counts.n_drafted[source] = before[0] + own.n_drafted
            counts.n_accepted[source] = before[1] + own.n_accepted
        if outcomes:
            counts.n_rounds[drafted] = counts.n_rounds.get(drafted, 0) + 1
            counts.n_committed += sum(len(own.tokens) for own in verified.values())

    def forget_all_but(self, sequences: Iterable[SequenceState]) -> None:
        """Drop what is kept of sequences that have left the lane."""
        gone = self._known - {sequence.number for sequence in sequences}
        for number in gone:
            self._ahead.pop(number, None)
            self._guards.forget(number)
            for drafter in self.speculation.drafters:
                forget = partial(drafter.forget, number)
                self.safely(forget, f"drafter {drafter.source} forgets nothing")
        self._known -= gone
