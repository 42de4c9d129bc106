"""The controller in simulated worlds: what it may lose, and what it must win."""

import dataclasses
import itertools
import math

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.controller import Controller
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.rounds import (
    RoundOutcome,
    RoundPlan,
    RoundQuestion,
    SequenceOutcome,
)
from tests.support.draft_worlds import (
    KINDS,
    World,
    fixed_s,
    plain_s,
    run,
    write,
)

NGRAM, SELF, MODEL = DraftSource.NGRAM, DraftSource.SELF, DraftSource.MODEL
WORLDS = st.builds(
    World,
    rtt_s=st.sampled_from((0.0, 0.0005, 0.0034, 0.02, 0.1, 0.2)),
    compute_s=st.sampled_from((0.001, 0.005, 0.05)),
    row=st.floats(0.02, 1.0),
    misses=st.floats(0.02, 1.0),
    self_step=st.floats(0.3, 1.5),
    model_step=st.floats(0.02, 1.0),
    hidden=st.floats(0.0, 1.0),
    fetch_s=st.floats(0.0, 1.0),
    can_prefetch=st.booleans(),
    noise=st.floats(0.0, 0.3),
    stall=st.sampled_from((0.0, 0.02)),
    sources=st.sampled_from(
        (
            frozenset({NGRAM}),
            frozenset({SELF}),
            frozenset({NGRAM, SELF}),
            frozenset({NGRAM, SELF, MODEL}),
        )
    ),
)
SOME_KINDS = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4)
NOISE = [(KINDS["noise"], 300)]  # on which every draft is wrong


@settings(max_examples=20, phases=[Phase.generate], derandomize=True)
@given(WORLDS, st.sampled_from(sorted(KINDS)), st.integers(0, 1 << 30))
def test_it_is_never_more_than_5_percent_slower_than_without(
    world: World, kind: str, seed: int
) -> None:
    text = write([(KINDS[kind], 400)], seed)
    result = run(world, text, Controller(world.n_layers), seed=seed, number=1)
    assert result.seconds <= 1.05 * plain_s(world, text)


@settings(max_examples=12, phases=[Phase.generate], derandomize=True)
@given(
    WORLDS,
    st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4),
    st.integers(0, 1 << 30),
)
def test_nor_if_acceptance_drops_suddenly(
    world: World, kinds: list[str], seed: int
) -> None:
    """In one request, and on the second of two, whatever the first has taught."""
    chooser = Controller(world.n_layers)
    first = write([(KINDS[kind], 120) for kind in kinds], seed)
    result = run(world, first, chooser, seed=seed, number=1)
    assert result.seconds <= 1.05 * plain_s(world, first)
    second = write(NOISE, seed)
    result = run(world, second, chooser, seed=seed, number=2)
    assert result.seconds <= 1.05 * plain_s(world, second)


@pytest.mark.slow
@settings(max_examples=150, phases=[Phase.generate], derandomize=True)
@given(WORLDS, SOME_KINDS, st.integers(0, 1 << 30))
def test_nor_in_many_more_worlds(world: World, kinds: list[str], seed: int) -> None:
    """Over texts of 300 tokens and more: what is lent at first weighs in shorter."""
    chooser = Controller(world.n_layers)
    pieces = [(KINDS[kind], 400 // len(kinds)) for kind in kinds]
    for number, text in enumerate((write(pieces, seed), write(NOISE, seed))):
        result = run(world, text, chooser, seed=seed, number=number)
        assert result.seconds <= 1.05 * plain_s(world, text)


@pytest.mark.parametrize("rtt_s", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_it_is_nearly_as_quick_as_the_best_of_all_fixed_ways(
    rtt_s: float, kind: str
) -> None:
    """Best in hindsight, of each text alone; over a few texts, by the mean."""
    world = World(rtt_s=rtt_s, misses=0.78)
    shares = []
    for seed in range(3):
        text = write([(KINDS[kind], 400)], seed)
        best = min(
            [plain_s(world, text)]
            + [
                fixed_s(world, text, source, n)
                for source in (NGRAM, SELF)
                for n in (1, 2, 4, 8, 16)
            ]
        )
        result = run(world, text, Controller(7), seed=seed, number=1)
        shares.append(best / result.seconds)
    assert sum(shares) / len(shares) > 0.88


def test_fetching_ahead_is_found_where_it_pays_and_left_where_it_does_not() -> None:
    text = write([(KINDS["prose"], 400)], 5)
    quick = World(rtt_s=0.1, misses=0.78, can_prefetch=True, fetch_s=0.02)
    result = run(quick, text, Controller(7), seed=1, number=1)
    assert sum(plan.prefetch for plan in result.plans) > len(result.plans) / 2
    slow = World(rtt_s=0.1, misses=0.78, can_prefetch=True, fetch_s=3.0)
    result = run(slow, text, Controller(7), seed=1, number=1)
    assert sum(plan.prefetch for plan in result.plans) < 5


def question(**changes: object) -> RoundQuestion:
    values = {"n_sequences": 1, "most": 16, "sources": frozenset({NGRAM, SELF})}
    return RoundQuestion(**{**values, **changes})


def measured(rtt_s: float = 0.1) -> Controller:
    """Return a controller that has seen plain rounds of one row."""
    controller = Controller(7)
    for _ in range(3):
        plan = controller.choose(question())
        assert plan.source is None
        assert "measures" in plan.why
        own = SequenceOutcome(source=None, n_drafted=0, n_accepted=0)
        controller.observe(
            RoundOutcome(
                plan=plan,
                sequences=[own],
                n_rows=1,
                draft_s=0.0,
                pass_s=0.01 + 5 * rtt_s,
                wait_s=5 * rtt_s,
                n_trips=5 if rtt_s else 0,
            )
        )
    return controller


def test_it_says_why() -> None:
    plan = measured().choose(question())
    assert plan.source is SELF
    assert "tokens in" in plan.why
    assert plan.floor == 0.0  # nothing is cut before it is known what is right
    plan = measured(rtt_s=0.0).choose(question())
    assert plan.source is None
    assert plan.why.startswith("plain: 1 token in 10.0 ms, self 1: ")


@pytest.mark.parametrize(
    "changes",
    [{"most": 0}, {"sources": frozenset()}, {"sources": frozenset({NGRAM})}],
)
def test_without_drafts_it_decodes_plainly(changes: dict[str, object]) -> None:
    assert measured().choose(question(**changes)) == RoundPlan(
        why="plain: nobody has a draft"
    )


def test_long_matches_are_copied_far() -> None:
    asked = question(matches=(12,), sources=frozenset({NGRAM}))
    plan = measured().choose(asked)
    assert (plan.source, plan.n_drafts) == (NGRAM, 16)
    plan = measured().choose(dataclasses.replace(asked, most=5))
    assert (plan.source, plan.n_drafts) == (NGRAM, 4)


def test_a_fetch_that_fetches_nothing_is_asked_for_less_and_less() -> None:
    controller = measured()
    asked = question(sources=frozenset({SELF}), can_prefetch=True)
    plans = []
    for _ in range(200):
        plan = controller.choose(asked)
        plans.append(plan)
        n_drafted = plan.n_drafts
        own = SequenceOutcome(
            source=SELF, n_drafted=n_drafted, n_accepted=n_drafted - n_drafted // 4
        )
        controller.observe(
            RoundOutcome(
                plan=plan,
                sequences=[own],
                n_rows=1 + n_drafted,
                draft_s=0.001,
                pass_s=0.6,
                wait_s=0.6,
                n_trips=6,
            )
        )
    assert any(plan.source is SELF for plan in plans)
    tries = [at for at, plan in enumerate(plans) if plan.prefetch]
    pauses = [later - sooner for sooner, later in itertools.pairwise(tries)]
    assert len(tries) <= 12
    assert pauses == sorted(pauses)
    assert pauses[0] <= 4


def test_several_sequences_share_a_round() -> None:
    plan = measured().choose(
        question(n_sequences=4, matches=(12, 0, 9, 0), numbers=(1, 2, 3, 4))
    )
    assert plan.source is not None


@pytest.mark.parametrize("odd", [-1.0, math.nan, math.inf, -math.inf, 1e9])
@pytest.mark.parametrize("name", ["draft_s", "pass_s", "wait_s", "fetch_s"])
def test_a_round_whose_times_cannot_be_true_teaches_nothing(
    name: str, odd: float
) -> None:
    """Clocks jump, and a figure that is none would stay in every mean."""
    controller, untouched = measured(), measured()
    times = {"draft_s": 0.01, "pass_s": 0.5, "wait_s": 0.4, "fetch_s": 0.0} | {
        name: odd
    }
    for _ in range(20):
        own = SequenceOutcome(source=SELF, n_drafted=2, n_accepted=2, chances=(0.9,))
        plan = RoundPlan(source=SELF, n_drafts=2, prefetch=name == "fetch_s")
        controller.observe(
            RoundOutcome(plan=plan, sequences=[own], n_rows=3, n_trips=5, **times)
        )
    assert controller.choose(question()) == untouched.choose(question())
