"""Rounds of a lane: whatever drafts, the tokens are those of plain decoding."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.backbone.generation import FinishReason, GenerationRequest, StepFigures
from p2pmoe.backbone.lane_events import StepFailed
from p2pmoe.backbone.run_figures import end_of
from p2pmoe.backbone.speculation.drafts import DraftSource, DraftWish
from p2pmoe.backbone.speculation.ngram import NgramDraft
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.backbone.speculation.speculation import Speculation
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import ExpertsUnavailable, NotFinite, RequestFailed
from p2pmoe.model.sampler import SamplingSettings
from p2pmoe.model.step import SequencePart
from p2pmoe.text.stopping import CompletionText, StopRules
from tests.support.drafters import (
    FixedChooser,
    Guess,
    ScriptedDraft,
    drafting_always,
    right,
    right_until_the_last,
    wrong,
)
from tests.support.lanes import LaneRig, a_request, limits_of
from tests.support.recalling_model import N_VOCAB, RecallingModel, cold_run
from tests.support.scripted_model import CountingExperts, ScriptedModel, ask

SAMPLED = SamplingSettings(temperature=1.5, seed=3, repetition_penalty=1.2)


def said(request: GenerationRequest) -> list[int]:
    return [*request.prompt_ids, *cold_run(request)]


def knowing(requests: Sequence[GenerationRequest], how: str) -> Guess:
    """Guess for several sequences, told apart by their prompts' first tokens."""
    texts = {request.prompt_ids[0]: said(request) for request in requests}

    def guess(wish: DraftWish) -> Sequence[int]:
        text = texts[wish.tokens[0]]
        if how == "right":
            return right(text)(wish)
        if how == "wrong":
            return wrong(text, N_VOCAB)(wish)
        return right_until_the_last(text, N_VOCAB)(wish)

    return guess


def rig_of(
    drafter: ScriptedDraft, n: int, model: RecallingModel | None = None, **limits: int
) -> LaneRig:
    speculation = drafting_always(drafter, n)
    return LaneRig(
        model or RecallingModel(),
        limits_of(**limits),
        speculation=lambda: speculation,
    )


def counts_of(rig: LaneRig) -> tuple[int, int]:
    counts = rig.lanes[0].speculation.counts
    return sum(counts.n_drafted.values()), sum(counts.n_accepted.values())


# Tokens are those of plain decoding (fault B17).


@pytest.mark.parametrize("sampling", [SamplingSettings(temperature=0.0), SAMPLED])
@pytest.mark.parametrize("n", [1, 4, 8])
@pytest.mark.parametrize("how", ["right", "wrong", "right until the last"])
def test_b17_any_draft_gives_the_same_tokens(
    how: str, n: int, sampling: SamplingSettings
) -> None:
    request = a_request([1, 2, 3], 30, sampling=sampling)
    rig = rig_of(ScriptedDraft(knowing([request], how)), n)
    sequence = rig.submit(request)
    cache = None
    while rig.step():
        cache = sequence.cache or cache
        if sequence.cache is not None and sequence.n_drawn:
            assert cache.tokens == sequence.tokens[:-1]
    assert rig.tokens(sequence) == cold_run(request)
    assert rig.cause(sequence) is FinishReason.LENGTH
    drafted, accepted = counts_of(rig)
    assert (sequence.n_drafted, sequence.n_accepted) == (drafted, accepted)
    if how == "right":
        assert accepted == drafted > 0
    if how == "wrong":
        assert accepted == 0 < drafted
        assert rig.lanes[0].n_steps == 30
    if how == "right until the last" and n > 1:
        assert 0 < accepted < drafted


def test_right_drafts_save_passes() -> None:
    request = a_request([1, 2], 31)
    rig = rig_of(ScriptedDraft(knowing([request], "right")), 4)
    sequence = rig.submit(request)
    rig.run()
    blocks = [len(step.tokens) for step in rig.steps(sequence)]
    assert blocks == [1, 5, 5, 5, 5, 5, 5]


@pytest.mark.parametrize("when", ["begin", "advance", "drafts"])
def test_b17_a_drafter_that_dies_is_off_for_that_request_and_logged_once(
    when: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = a_request([1, 2], 20), a_request([2, 3], 20)

    class Dying(ScriptedDraft):
        def begin(self, wishes: Sequence[DraftWish]):
            drafting = super().begin(wishes)
            if len(wishes[0].tokens) > 8:

                def dies() -> None:
                    raise RuntimeError("the drafter is broken")

                if when == "begin":
                    dies()
                setattr(drafting, when, dies)
            return drafting

    drafter = Dying(knowing([first, second], "right"))
    rig = rig_of(drafter, 2)
    with caplog.at_level(logging.WARNING):
        one = rig.submit(first)
        rig.run()
        n_wishes = len(drafter.wishes)
        two = rig.submit(second)
        rig.run()
    assert rig.tokens(one) == cold_run(first)
    assert rig.tokens(two) == cold_run(second)
    assert len(drafter.wishes) > n_wishes > 0  # the next request has its drafts
    assert [r.message for r in caplog.records].count(
        "drafter model is off for a request: the drafter is broken"
    ) == 1


@pytest.mark.parametrize("beyond", [N_VOCAB, N_VOCAB + 1, -1, 10**9])
def test_b17_ids_beyond_the_vocabulary_switch_the_drafter_off(
    beyond: int, caplog: pytest.LogCaptureFixture
) -> None:
    request = a_request([1, 2], 12)
    text = said(request)

    def guess(wish: DraftWish) -> Sequence[int]:
        return [*right(text)(wish)[:2], beyond, 1]

    drafter = ScriptedDraft(guess)
    rig = rig_of(drafter, 4)
    sequence = rig.submit(request)
    with caplog.at_level(logging.WARNING):
        rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    assert len(drafter.wishes) == 1
    assert f"it drafts token {beyond}, and there are {N_VOCAB}" in caplog.text
    assert counts_of(rig) == (2, 2)  # what came before is a draft like any other


def test_a_chooser_that_fails_means_plain_decoding(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def choose(self, question: object) -> RoundPlan:
            raise RuntimeError("no idea")

        def observe(self, outcome: object) -> None:
            raise RuntimeError("no idea")

    request = a_request([1, 2], 5)
    own = Speculation(drafters=(NgramDraft(),), chooser=Broken())
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    logged = [own.message for own in caplog.records if own.levelname == "ERROR"]
    assert [line.split(": ")[-1] for line in logged] == [
        "its chooser failed",  # and not in each round again
        "a chooser did not take in a round",
    ]


@pytest.mark.parametrize("what", ["forget_all_but", "choose", "prepare", "end"])
def test_whatever_fails_in_drafting_ends_no_request(
    what: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    request = a_request([1, 2], 9)
    rig = rig_of(ScriptedDraft(knowing([request], "right")), 3)
    monkeypatch.setattr(rig.lanes[0]._drafts, what, fails)
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    assert "drafting failed; tokens are decoded plainly" in caplog.text


# Ends within a block (fault B18).


@pytest.mark.parametrize("n", [1, 3, 4, 8])
@pytest.mark.parametrize("max_tokens", [1, 2, 5, 8])
def test_b18_exactly_max_tokens(max_tokens: int, n: int) -> None:
    request = a_request([1, 2], max_tokens)
    drafter = ScriptedDraft(knowing([a_request([1, 2], 40)], "right"))
    rig = rig_of(drafter, n)
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    assert rig.cause(sequence) is FinishReason.LENGTH
    # Nothing is drafted that could not be delivered.
    assert all(len(wish.tokens) - 2 + wish.n < max_tokens for wish in drafter.wishes)
    assert sequence.n_drafted <= max(0, max_tokens - 1)


@pytest.mark.parametrize("at", range(9))
@pytest.mark.parametrize("n", [1, 4, 8])
def test_b18_a_stop_token_at_any_place_of_a_block(n: int, at: int) -> None:
    whole = a_request([1, 2], 20)
    tokens = cold_run(whole)
    stop = tokens[at]
    request = a_request([1, 2], 20, stop_ids=frozenset({stop}))
    # The drafter does not know about stop tokens, and goes on behind them.
    rig = rig_of(ScriptedDraft(knowing([whole], "right")), n)
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == tokens[: tokens.index(stop) + 1]
    assert rig.cause(sequence) is FinishReason.STOP
    usage = end_of(sequence, FinishReason.STOP, len(rig.tokens(sequence))).usage
    assert usage.completion_tokens == len(cold_run(request))
    assert usage.accepted_draft_tokens <= usage.drafted_tokens


STOP, PAD = 9, 63


@pytest.mark.parametrize(
    ("says", "max_tokens", "n_drafts", "shown", "finish", "n_counted"),
    [
        # The six cases of the fault, their first token drawn by the prompt's pass.
        ([10, 11, STOP, 20, 21, 22], 5, 5, [10, 11], FinishReason.STOP, 3),
        ([10, 11, 12, 13, 14, STOP], 5, 5, [10, 11, 12, 13, 14], "length", 5),
        ([10, 11, 12, STOP, 20], 20, 2, [10, 11, 12], FinishReason.STOP, 4),
        ([10, 104 - 64, 105 - 64, 33, 20], 20, 1, [10], FinishReason.STOP, 3),
        (list(range(10, 40)), 8, 4, list(range(10, 18)), "length", 8),
        (list(range(10, 40)), 1, 4, [10], "length", 1),
    ],
)
def test_b18_its_six_cases_with_a_lane(
    says: list[int],
    max_tokens: int,
    n_drafts: int,
    shown: list[int],
    finish: str,
    n_counted: int,
) -> None:
    """Blocks of a lane through the text that a client sees; "hi" is a stop string."""

    def run(n: int) -> tuple[str, int, str | None]:
        request = replace(ask(max_tokens, stop=frozenset({STOP})), n_top_logprobs=0)
        drafter = ScriptedDraft(right([*request.prompt_ids, *says, *[PAD] * 40]))
        rig = LaneRig(
            ScriptedModel([*says, *[PAD] * 40]),
            experts=lambda step: CountingExperts(),
            speculation=(lambda: drafting_always(drafter, n, in_flight=False))
            if n
            else None,
        )
        sequence = rig.submit(request)
        rules = StopRules(
            max_tokens=max_tokens, stop_ids=request.stop_ids, stop_texts=("hi",)
        )
        text = CompletionText(rules, lambda token: bytes([token + 64]))
        pieces, reason = [], None
        while reason is None and rig.step():
            for step in rig.steps(sequence):
                delta = text.accept(step.tokens)
                pieces.append(delta.text)
                reason = reason or delta.finish
            rig.events.clear()
        return "".join(pieces), text.n_tokens, reason

    expected = "".join(chr(token + 64) for token in shown), n_counted, finish
    assert run(0) == run(n_drafts) == expected


class Grammar:
    """Allows even tokens only, `n` of them; then nothing."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.heard: list[int] = []

    def allowed(self) -> np.ndarray:
        mask = np.zeros(N_VOCAB, np.bool_)
        mask[::2] = len(self.heard) < self.n
        return mask

    def accept(self, token: int) -> None:
        assert token % 2 == 0
        self.heard.append(token)


def test_a_grammar_hears_committed_tokens_alone_and_ends_a_block() -> None:
    def run(speculates: bool) -> tuple[list[int], list[int], object]:
        grammar = Grammar(7)
        request = a_request([1, 2], 20, constraint=lambda: grammar)
        rig = LaneRig(RecallingModel())
        if speculates:
            rig = rig_of(ScriptedDraft(lambda wish: script), 4)
        sequence = rig.submit(request)
        rig.run()
        return rig.tokens(sequence), grammar.heard, rig.cause(sequence)

    script: list[int] = []
    plain, heard, cause = run(speculates=False)
    assert len(plain) == 7
    assert isinstance(cause, RequestFailed)
    script = plain[1:]  # right in the first round, wrong thereafter
    tokens, heard_too, cause_too = run(speculates=True)
    assert tokens == plain
    assert heard_too == heard == plain
    assert str(cause_too) == str(cause) == "the grammar allows no token here"


# What clients are told.


def test_log_probabilities_come_with_each_token_of_a_block() -> None:
    request = a_request([1, 2], 12, n_top_logprobs=2)
    plain, fast = (
        LaneRig(RecallingModel()),
        rig_of(ScriptedDraft(knowing([request], "right until the last")), 3),
    )
    told = []
    for rig in (plain, fast):
        sequence = rig.submit(request)
        rig.run()
        told.append([own for step in rig.steps(sequence) for own in step.logprobs])
        for step in rig.steps(sequence):
            assert tuple(own.token for own in step.logprobs) == step.tokens
    assert told[0] == told[1]


def test_hashes_are_those_of_accepted_rows_alone() -> None:
    def run(speculates: bool) -> list[int]:
        request = a_request([1, 2], 9, traces=True)
        model = RecallingModel()
        rig = LaneRig(model)
        if speculates:
            rig = rig_of(ScriptedDraft(knowing([request], "right until the last")), 3)
        rig.experts = hashing
        sequence = rig.submit(request)
        rig.run()
        steps = rig.steps(sequence)
        return [own.position for step in steps for own in step.hashes]

    def hashing(step: StepTrace) -> None:
        for row in range(step.n_rows):
            step.hashed(row, 0, None, b"")

    assert run(speculates=True) == run(speculates=False) == list(range(10))


def test_figures_and_passes_go_with_their_block() -> None:
    request = a_request([1, 2], 9, explains=True)
    rig = rig_of(ScriptedDraft(knowing([request], "right")), 3)
    sequence = rig.submit(request)
    rig.run()
    steps = rig.steps(sequence)
    assert all(isinstance(step.figures, StepFigures) for step in steps)
    passes = [own for step in steps for own in step.passes]
    assert [own.n_committed for own in passes] == [1, 4, 4]
    assert [(own.n_drafted, own.n_accepted) for own in passes] == [
        (0, 0),
        (3, 3),
        (3, 3),
    ]
    assert passes[1].drafter == "model"
    assert passes[1].why == "as a test says"


def test_usage_is_the_same_with_and_without() -> None:
    request = a_request([1, 2, 3], 17)
    usages = []
    for rig in (
        LaneRig(RecallingModel()),
        rig_of(ScriptedDraft(knowing([request], "right until the last")), 5),
    ):
        sequence = rig.submit(request)
        rig.run()
        usages.append(end_of(sequence, None, len(rig.tokens(sequence))).usage)
    plain, fast = usages
    assert (plain.prompt_tokens, plain.completion_tokens, plain.cached_tokens) == (
        fast.prompt_tokens,
        fast.completion_tokens,
        fast.cached_tokens,
    )
    assert plain.drafted_tokens == 0 < fast.accepted_draft_tokens


# Rows and room.


def test_drafts_never_preempt_and_never_take_what_is_kept() -> None:
    # Two granules of 128 positions: both sequences have one, and nothing is free.
    limits = {"kv_bytes": 2 * 128 * 10, "n_context": 128}
    requests = [a_request([i], 120) for i in (1, 2)]
    drafter = ScriptedDraft(knowing(requests, "right"))
    rig = rig_of(drafter, 8, **limits)
    both = [rig.submit(request) for request in requests]
    rig.run()
    assert rig.schedule.n_preemptions == 0
    for sequence, request in zip(both, requests, strict=True):
        assert rig.tokens(sequence) == cold_run(request)


def test_drafts_end_where_the_room_ends() -> None:
    rig = LaneRig(RecallingModel(), limits_of(kv_bytes=140 * 10, n_context=140))
    sequence = rig.submit(a_request([1, 2], 138))
    rig.step()
    assert sequence.room == 130
    sequence.tokens += [3] * 123  # as if drawn
    sequence.cache.tokens += sequence.tokens[sequence.length : -1]
    assert rig.schedule.room_for_drafts(sequence, 4) == 4
    assert sequence.room == 130
    assert rig.schedule.room_for_drafts(sequence, 9) == 9
    assert sequence.room == 140  # that much was free
    assert rig.schedule.room_for_drafts(sequence, 90) == 140 - 126
    assert rig.schedule.pool.free_bytes == 0


def test_rows_stay_within_what_a_step_may_have() -> None:
    requests = [a_request([i], 12) for i in range(1, 5)]
    seen = []
    model = RecallingModel(
        on_step=lambda parts: seen.append(sum(len(part.tokens) for part in parts))
    )
    rig = rig_of(
        ScriptedDraft(knowing(requests, "right")), 8, model, max_batch=4, chunk_tokens=8
    )
    sequences = [rig.submit(request) for request in requests]
    rig.run()
    assert max(seen) <= 12  # slots and a chunk
    for sequence, request in zip(sequences, requests, strict=True):
        assert rig.tokens(sequence) == cold_run(request)


def test_clients_are_charged_for_rows_that_last() -> None:
    request = a_request([1, 2], 20, client="a")
    rig = rig_of(ScriptedDraft(knowing([request], "right until the last")), 4)
    rig.submit(request)
    rig.run()
    assert rig.schedule.queue.served("a") == 2 + 19  # as without drafts


# Failures.


def test_a_pass_that_fails_by_a_draft_runs_again_without() -> None:
    requests = [a_request([1, 2], 30), a_request([2, 3], 30)]
    failed = []

    def on_step(parts: Sequence[SequencePart]) -> None:
        if any(len(part.tokens) > 1 for part in parts if part.cache.length > 2):
            failed.append(len(parts))
            raise ExpertsUnavailable("nobody holds expert 3", rows=[1])

    drafter = ScriptedDraft(knowing(requests, "right"))
    rig = rig_of(drafter, 3, RecallingModel(on_step=on_step))
    rig.missing = MissingPolicy.WAIT
    sequences = [rig.submit(request) for request in requests]
    rig.run()
    for sequence, request in zip(sequences, requests, strict=True):
        assert rig.tokens(sequence) == cold_run(request)
        assert sequence.parked_by is None
        assert not sequence.is_suspect
    assert 0 < len(failed) < 4  # it does not try again in each round
    assert rig.lanes[0].speculation.counts.n_failed == len(failed)
    assert sum(isinstance(e, StepFailed) for e in rig.events) == len(failed)


def test_an_error_without_drafts_ends_the_request_as_ever() -> None:
    def on_step(parts: Sequence[SequencePart]) -> None:
        if any(part.cache.length >= 6 for part in parts):
            raise NotFinite("a value is not finite", rows=[0])

    request = a_request([1, 2], 30)
    rig = rig_of(ScriptedDraft(knowing([request], "right")), 2)
    rig.model.on_step = on_step
    sequence = rig.submit(request)
    rig.run()
    assert isinstance(rig.cause(sequence), NotFinite)
    assert rig.tokens(sequence) == cold_run(request)[: len(rig.tokens(sequence))]


def test_b20_a_request_that_is_cancelled_stops_within_one_step() -> None:
    request = a_request([1, 2], 500)
    drafter = ScriptedDraft(knowing([request], "right"))
    rig = rig_of(drafter, 4)
    sequence = rig.submit(request)
    for _ in range(5):
        rig.step()
    sequence.trace.cancelled = True
    n_steps, n_wishes = rig.model.n_steps, len(drafter.wishes)
    rig.run()
    assert (rig.model.n_steps, len(drafter.wishes)) == (n_steps, n_wishes)
    assert drafter.forgotten == [sequence.number]


# What a chooser hears.


def test_what_the_chooser_is_asked_and_told() -> None:
    request = a_request([1, 2], 10)
    drafter = ScriptedDraft(knowing([request], "right until the last"))
    rig = rig_of(drafter, 3)
    rig.submit(request)
    rig.run()
    chooser = rig.lanes[0].speculation.chooser
    assert isinstance(chooser, FixedChooser)
    question = chooser.questions[0]
    assert (question.n_sequences, question.most, question.numbers) == (1, 8, [0])
    assert question.sources == {DraftSource.MODEL}
    assert not question.can_prefetch
    (own,) = chooser.outcomes[0].sequences
    assert (own.source, own.n_drafted, own.n_accepted) == (DraftSource.MODEL, 3, 2)
    assert chooser.outcomes[0].n_rows == 4
    last = chooser.outcomes[-1].sequences[0]
    assert (last.source, last.n_drafted) == (None, 0)  # there is nothing to draft


def test_a_chooser_hears_whether_copying_would_have_been_right() -> None:
    request = a_request([1, 2, 9, 1, 2], 4)
    chooser = FixedChooser(RoundPlan())
    own = Speculation(drafters=(NgramDraft(),), chooser=chooser)
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    sequence = rig.submit(request)
    rig.step()
    sequence.tokens[-1] = 2  # as if it had repeated itself
    sequence.tokens[-2] = 1
    rig.step()
    (told,) = chooser.outcomes[0].sequences
    assert told.match >= 2
    assert told.was_guessed is (sequence.tokens[-1] == 9)


def test_a_draft_is_cut_at_the_floor_and_behind_a_stop_token() -> None:
    request = a_request([1, 2], 20)
    plan = RoundPlan(source=DraftSource.MODEL, n_drafts=8, floor=0.2)
    drafter = ScriptedDraft(knowing([request], "right"), chance=0.5)
    own = Speculation(drafters=(drafter,), chooser=FixedChooser(plan))
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    sequence = rig.submit(request)
    rig.run()
    assert {len(step.tokens) for step in rig.steps(sequence)[1:-1]} == {3}


# Weights that are fetched ahead.


class Fetching:
    """A `Prefetching` that keeps what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[list[dict[int, tuple[int, ...]]]] = []
        self.deadlines: set[float] = set()

    def fetch(self, foreseen, step: StepTrace, deadline: float) -> None:
        assert step.n_rows >= 1
        self.asked.append(list(foreseen))
        self.deadlines.add(deadline)


class Foreseeing(ScriptedDraft):
    """Foresees an expert for each row that it is asked about."""

    def foresee(self, wishes, drafts):
        self.rows = [1 + len(tokens) for tokens in drafts]
        return [{0: tuple(range(n))} for n in self.rows]


def prefetching(drafter: ScriptedDraft, others: Sequence[ScriptedDraft] = ()):
    plan = RoundPlan(source=drafter.source, n_drafts=2, prefetch=True)
    fetching = Fetching()
    own = Speculation(
        drafters=(drafter, *others), chooser=FixedChooser(plan), prefetch=fetching
    )
    return LaneRig(RecallingModel(), speculation=lambda: own), fetching


def test_what_drafts_foresee_is_fetched_before_their_pass() -> None:
    request = a_request([1, 2], 8)
    drafter = ScriptedDraft(knowing([request], "right"), foreseen={3: (7, 8)})
    rig, fetching = prefetching(drafter)
    rig.submit(request)
    rig.run()
    assert fetching.asked[0] == [{3: (7, 8)}]
    assert fetching.deadlines == {rig.now + 600.0}
    assert rig.lanes[0].speculation.chooser.questions[0].can_prefetch


def test_drafts_of_others_are_looked_at_by_who_foresees() -> None:
    request = a_request([1, 2], 8)
    drafter = ScriptedDraft(knowing([request], "right"))
    foreseeing = Foreseeing(lambda wish: [], source=DraftSource.SELF)
    rig, fetching = prefetching(drafter, [foreseeing])
    sequence = rig.submit(request)
    rig.run()
    assert fetching.asked[:2] == [[{0: (0, 1, 2)}]] * 2
    assert rig.tokens(sequence) == cold_run(request)


def test_nothing_is_fetched_for_a_plan_that_does_not_say_so() -> None:
    request = a_request([1, 2], 8)
    drafter = ScriptedDraft(knowing([request], "right"), foreseen={3: (7, 8)})
    fetching = Fetching()
    own = replace(drafting_always(drafter, 2), prefetch=fetching)
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    rig.submit(request)
    rig.run()
    assert fetching.asked == []


def test_who_foresees_and_fails_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    class Blind(Foreseeing):
        def foresee(self, wishes, drafts):
            raise RuntimeError("nothing is to be seen")

    request = a_request([1, 2], 8)
    drafter = ScriptedDraft(knowing([request], "right"))
    rig, fetching = prefetching(drafter, [Blind(lambda wish: [])])
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    assert fetching.asked == []
    assert "nothing is foreseen for a round" in caplog.text


def test_fetching_that_fails_ends_no_request(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does it where nothing was drafted, and there is no pass without drafts."""

    class Lost(Fetching):
        def fetch(self, foreseen, step, deadline):
            raise RuntimeError("a fault of ours")

    request = a_request([1, 2], 8)
    plan = RoundPlan(source=None, prefetch=True)
    own = Speculation(
        drafters=(Foreseeing(lambda wish: [], source=DraftSource.SELF),),
        chooser=FixedChooser(plan),
        prefetch=Lost(),
    )
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    assert caplog.text.count("nothing is fetched for a round") == 1


def test_a_drafter_that_cannot_forget_keeps_no_other_from_it() -> None:
    class Stubborn(ScriptedDraft):
        def forget(self, number: int) -> None:
            raise RuntimeError("a fault of ours")

    requests = [a_request([n, 2], 4) for n in range(3)]
    stubborn = Stubborn(knowing(requests, "right"))
    other = ScriptedDraft(lambda wish: [], source=DraftSource.MTP)
    own = replace(drafting_always(stubborn, 2), drafters=(stubborn, other))
    rig = LaneRig(RecallingModel(), speculation=lambda: own)
    sequences = [rig.submit(request) for request in requests]
    rig.run()
    rig.submit(a_request([9], 1))
    rig.run()
    assert sorted(other.forgotten) == [sequence.number for sequence in sequences]
    assert not rig.lanes[0]._drafts._known


# In flight.


def test_what_is_drafted_in_flight_begins_the_next_round() -> None:
    request = a_request([1, 2], 40)
    drafter = ScriptedDraft(knowing([request], "right"))
    rig = rig_of(drafter, 4, RecallingModel(n_polls=3))
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)
    chooser = rig.lanes[0].speculation.chooser
    plain = {own.draft_s for own in chooser.outcomes}
    assert plain == {0.0}
    # After the first round nothing was left to draft before a pass.
    before = [w for w in drafter.wishes if len(w.tokens) == w.cache.length + 1]
    assert len(before) == len(drafter.wishes)
    rounds = [own.sequences[0].n_drafted for own in chooser.outcomes]
    assert rounds[:5] == [4, 4, 4, 4, 4]
    assert rig.model.n_put_back > 0


def test_what_was_drafted_in_flight_is_dropped_if_a_draft_was_wrong() -> None:
    request = a_request([1, 2], 40)
    drafter = ScriptedDraft(knowing([request], "right until the last"))
    rig = rig_of(drafter, 4, RecallingModel(n_polls=9))
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)


@pytest.mark.parametrize("in_flight", [True, False])
def test_drafting_in_flight_can_be_switched_off(*, in_flight: bool) -> None:
    request = a_request([1, 2], 20)
    drafter = ScriptedDraft(knowing([request], "right"))
    own = drafting_always(drafter, 2, in_flight=in_flight)
    rig = LaneRig(RecallingModel(n_polls=3), speculation=lambda: own)
    rig.submit(request)
    rig.run()
    assert (rig.model.n_put_back > 0) == in_flight


def test_a_drafter_that_dies_in_flight_does_no_harm() -> None:
    request = a_request([1, 2], 20)
    text = said(request)

    def guess(wish: DraftWish) -> Sequence[int]:
        if len(wish.tokens) > 6:
            raise RuntimeError("the drafter is broken")
        return right(text)(wish)

    rig = rig_of(ScriptedDraft(guess), 4, RecallingModel(n_polls=3))
    sequence = rig.submit(request)
    rig.run()
    assert rig.tokens(sequence) == cold_run(request)


# All of it at once.


@settings(max_examples=30, deadline=None)
@given(
    data=st.data(),
    n=st.integers(1, 8),
    n_polls=st.integers(0, 5),
    n_lanes=st.integers(1, 2),
    granules=st.integers(2, 4),
    sampled=st.booleans(),
)
def test_any_drafts_any_schedule_the_same_tokens(
    data: st.DataObject,
    n: int,
    n_polls: int,
    n_lanes: int,
    granules: int,
    sampled: bool,
) -> None:
    sampling = SAMPLED if sampled else SamplingSettings(temperature=0.0)
    sizes = data.draw(st.lists(st.integers(1, 140), min_size=1, max_size=4))
    requests = [
        a_request([i + 1, 7], size, sampling=sampling) for i, size in enumerate(sizes)
    ]
    texts = {request.prompt_ids[0]: said(request) for request in requests}
    seed = data.draw(st.integers(0, 2**32 - 1))
    luck = np.random.default_rng(seed)

    def guess(wish: DraftWish) -> Sequence[int]:
        text = right(texts[wish.tokens[0]])(wish)
        n_right = int(luck.integers(0, wish.n + 1))
        return [*text[:n_right], *luck.integers(0, N_VOCAB, wish.n - n_right).tolist()]

    limits = limits_of(
        kv_bytes=granules * 150 * 10, n_context=160, n_lanes=n_lanes, max_batch=3
    )
    rig = LaneRig(
        RecallingModel(n_polls=n_polls),
        limits,
        speculation=lambda: drafting_always(ScriptedDraft(guess), n),
    )
    sequences = [rig.submit(request) for request in requests]
    rig.run()
    for sequence, request in zip(sequences, requests, strict=True):
        assert rig.tokens(sequence) == cold_run(request)
        assert rig.cause(sequence) is FinishReason.LENGTH
    assert rig.schedule.pool.granted_bytes == 0
