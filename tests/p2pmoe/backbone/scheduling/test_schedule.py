"""Schedules over lanes: outputs as of a cold run, memory within its pool, all ends."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.backbone.generation import FailureKind, FinishReason, GenerationFailed
from p2pmoe.backbone.scheduling.schedule import GRANULE
from p2pmoe.errors import Cancelled, RequestFailed
from p2pmoe.model.errors import CacheFull
from p2pmoe.model.sampler import SamplingSettings
from tests.support.lanes import LaneRig, a_request, limits_of
from tests.support.recalling_model import TOKEN_BYTES, RecallingModel, cold_run


@dataclass(frozen=True)
class Wish:
    """A request of some client at some time, and when it is cancelled."""

    client: str
    prompt: tuple[int, ...]
    max_tokens: int
    seed: int
    after: int  # rounds before it is submitted
    cancelled_after: int | None  # rounds after that


SYSTEM = tuple(range(1, 21))
prompts = st.one_of(
    st.lists(st.integers(0, 3), min_size=1, max_size=12),
    st.lists(st.integers(0, 31), min_size=1, max_size=300),
    st.lists(st.integers(0, 3), max_size=9).map(lambda tail: [*SYSTEM, *tail]),
).map(tuple)
wishes = st.builds(
    Wish,
    client=st.sampled_from("AB"),
    prompt=prompts,
    max_tokens=st.integers(1, 200),
    seed=st.integers(0, 3),
    after=st.integers(0, 30),
    cancelled_after=st.none() | st.integers(0, 20),
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(wishes, min_size=1, max_size=12),
    st.integers(500, 1500),
    st.integers(1, 2),
    st.integers(1, 6),
    st.integers(1, 64),
)
def test_whatever_comes_outputs_are_those_of_a_cold_run(
    asked: list[Wish], n_positions: int, n_lanes: int, max_batch: int, chunk: int
) -> None:
    model = RecallingModel()
    limits = limits_of(
        kv_bytes=n_positions * TOKEN_BYTES,
        n_lanes=n_lanes,
        max_batch=max_batch,
        chunk_tokens=chunk,
    )
    rig = LaneRig(model, limits)
    found = []
    left = sorted(asked, key=lambda wish: wish.after)
    for turn in range(100_000):
        while left and left[0].after <= turn:
            wish = left.pop(0)
            sampling = SamplingSettings(temperature=1.0, seed=wish.seed)
            request = a_request(
                wish.prompt, wish.max_tokens, client=wish.client, sampling=sampling
            )
            found.append((turn, wish, rig.submit(request)))
        for since, wish, sequence in found:
            after = wish.cancelled_after
            if after is not None and turn - since >= after:
                sequence.trace.cancelled = True
        busy = [rig.step(lane) for lane in range(n_lanes)]
        pool = rig.schedule.pool
        assert pool.granted_bytes + pool.kept_bytes <= pool.n_bytes
        granted = sum(s.room for own in rig.schedule.lanes for s in own)
        assert granted * TOKEN_BYTES == pool.granted_bytes
        if not any(busy) and not left:
            break
    for _, wish, sequence in found:
        whole = cold_run(sequence.request)
        tokens = rig.tokens(sequence)
        cause = rig.cause(sequence)
        assert tokens == whole[: len(tokens)]
        if isinstance(cause, FinishReason):
            assert tokens == whole
        else:
            assert isinstance(cause, Cancelled)
            assert wish.cancelled_after is not None
    assert pool.granted_bytes == 0
    assert rig.schedule.n_running == len(rig.schedule.queue) == 0
    assert model.live_bytes == pool.kept_bytes


def test_a_request_that_can_never_fit_is_refused_at_once() -> None:
    rig = LaneRig(RecallingModel(), limits_of(kv_bytes=1000, n_context=200))
    with pytest.raises(CacheFull, match="101 tokens take 1010 bytes"):
        rig.submit(a_request(range(100)))
    with pytest.raises(CacheFull, match="do not fit the context of 200"):
        rig.submit(a_request(range(200)))
    with pytest.raises(RequestFailed, match="empty"):
        rig.submit(a_request(()))
    assert len(rig.schedule.queue) == 0


def test_many_long_contexts_queue_and_stay_inside_the_pool() -> None:
    model = RecallingModel()
    limits = limits_of(kv_bytes=2000 * TOKEN_BYTES, max_batch=16)
    rig = LaneRig(model, limits)
    asked = [rig.submit(a_request(range(i, 900 + i), 90)) for i in range(20)]
    most = running = 0
    while rig.step():
        most = max(most, model.live_bytes)
        running = max(running, rig.schedule.n_running)
    assert most <= limits.kv_bytes
    assert running == 2  # of 990 each
    assert all(rig.tokens(s) == cold_run(s.request) for s in asked)


def test_the_youngest_is_preempted_and_its_tokens_are_the_same() -> None:
    rig = LaneRig(RecallingModel(), limits_of(kv_bytes=10 * 4 * GRANULE))
    asked = [rig.submit(a_request([i], 3 * GRANULE)) for i in range(3)]
    while rig.step() and not rig.schedule.n_preemptions:
        pass
    assert rig.schedule.queue.peek() is asked[1]  # the other never had a slot
    rig.run()
    assert rig.schedule.n_preemptions >= 1
    for sequence in asked:
        assert rig.tokens(sequence) == cold_run(sequence.request)
        assert rig.cause(sequence) is FinishReason.LENGTH


def test_a_preempted_one_comes_before_all_that_wait() -> None:
    rig = LaneRig(RecallingModel(), limits_of(kv_bytes=10 * 4 * GRANULE))
    asked = [rig.submit(a_request([i], 2 * GRANULE)) for i in range(3)]
    while rig.step() and not rig.schedule.n_preemptions:
        pass
    late = rig.submit(a_request([9], 2 * GRANULE, client="other"))
    rig.run()
    ends = [e.sequence for e in rig.events if hasattr(e, "cause")]
    assert ends.index(asked[1]) < ends.index(asked[2])
    assert ends.index(asked[1]) < ends.index(late)


def test_the_queue_says_when_to_try_again() -> None:
    rig = LaneRig(RecallingModel(), limits_of(max_batch=1, max_waiting=2))
    for i in range(4):
        if i == 1:
            rig.step()
        if i < 3:
            rig.submit(a_request([i], 5))
    with pytest.raises(GenerationFailed, match="2 requests wait") as caught:
        rig.submit(a_request([9]))
    assert caught.value.kind is FailureKind.OVERLOADED
    assert 1.0 <= caught.value.retry_s <= 60.0


def test_a_full_queue_makes_place_for_another_client() -> None:
    rig = LaneRig(RecallingModel(), limits_of(max_batch=1, max_waiting=2))
    first = rig.submit(a_request([0], 5))
    rig.step()
    greedy = [rig.submit(a_request([i], 5)) for i in (1, 2)]
    other = rig.submit(a_request([7], 5, client="other"))
    assert rig.cause(greedy[1]).kind is FailureKind.OVERLOADED
    rig.run()
    assert rig.admitted() == [first, other, greedy[0]]


def test_one_client_with_a_thousand_requests_does_not_starve_another() -> None:
    rig = LaneRig(RecallingModel(), limits_of(max_batch=4, max_waiting=2000))
    for i in range(1000):
        rig.submit(a_request([i % 32, 5], 8, client="greedy"))
    for _ in range(20):
        rig.step()
    before = len(rig.admitted())
    other = rig.submit(a_request([1, 2, 3], 8, client="modest"))
    n = 0
    while rig.cause(other) is None:
        rig.step()
        n += 1
    assert n <= 8 + 8 + 2  # a slot, its tokens
    assert rig.admitted().index(other) <= before + 1
    for i in range(20):  # and in the long run they share
        rig.submit(a_request([i, 7], 8, client="modest"))
    rig.events.clear()
    for _ in range(60):
        rig.step()
    mine = sum(s.request.client == "modest" for s in rig.admitted())
    assert abs(2 * mine - len(rig.admitted())) <= 4


def test_a_waiting_request_has_its_first_token_a_step_after_a_slot_is_free() -> None:
    rig = LaneRig(RecallingModel(), limits_of(max_batch=2))
    rig.submit(a_request([1], 200))
    short = rig.submit(a_request([2], 3))
    rig.step()
    waits = rig.submit(a_request(range(30), 5))
    while rig.cause(short) is None:
        rig.step()
    assert rig.tokens(waits) == []
    rig.step()
    assert len(rig.tokens(waits)) == 1


def test_a_short_prompt_does_not_wait_for_a_long_one() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=64))
    rig.submit(a_request(range(4000), 5))
    rig.step()
    short = rig.submit(a_request(range(30), 5))
    rig.step()
    assert len(rig.tokens(short)) == 1


def test_lanes_share_what_waits() -> None:
    rig = LaneRig(RecallingModel(), limits_of(n_lanes=2, max_batch=4))
    for i in range(6):
        rig.submit(a_request([i], 50))
    for _ in range(4):
        rig.step(0)
        rig.step(1)
    assert [len(own) for own in rig.schedule.lanes] == [3, 3]


# Reuse of prefixes (fault B16).

ZEBRA = tuple(range(10, 40))  # "You are Machine 1, secret zebra-7731"


def test_b16_a_prefix_is_reused_by_content_and_client_alone() -> None:
    rig = LaneRig(RecallingModel())
    first = rig.submit(a_request([*ZEBRA, 1, 2], 4, client="A"))
    rig.run()
    again = rig.submit(a_request([*ZEBRA, 3], 4, client="A"))
    other = rig.submit(a_request([*ZEBRA, 1, 2], 4, client="B"))
    rig.run()
    assert (first.n_cached, again.n_cached, other.n_cached) == (0, len(ZEBRA), 0)
    for sequence in (first, again, other):
        assert rig.tokens(sequence) == cold_run(sequence.request)
    assert rig.schedule.n_prefix_hits == 1
    assert rig.schedule.n_reused == len(ZEBRA)


def test_b16_a_chat_goes_on_from_all_that_was_said() -> None:
    rig = LaneRig(RecallingModel())
    first = rig.submit(a_request(ZEBRA, 9))
    rig.run()
    said = [*ZEBRA, *rig.tokens(first)]
    second = rig.submit(a_request([*said, 5, 6], 9))
    rig.run()
    assert second.n_cached == len(said) - 1  # the last token drawn was not run
    assert rig.tokens(second) == cold_run(second.request)
    assert len(rig.schedule.pool.store) == 1  # one goes on in the other's memory


def test_b16_the_last_token_of_a_prompt_is_always_run() -> None:
    rig = LaneRig(RecallingModel())
    for _ in range(2):
        last = rig.submit(a_request(ZEBRA, 1))
        rig.run()
    assert last.n_cached == len(ZEBRA) - 1
    assert rig.tokens(last) == cold_run(last.request)


def test_b16_a_prefill_that_was_cancelled_leaves_nothing() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=8))
    first = rig.submit(a_request(ZEBRA, 4))
    rig.step()
    assert first.length == 8
    first.trace.cancelled = True
    rig.run()
    assert isinstance(rig.cause(first), Cancelled)
    assert rig.schedule.pool.kept_bytes == rig.schedule.pool.granted_bytes == 0
    again = rig.submit(a_request(ZEBRA, 4))
    rig.run()
    assert again.n_cached == 0


def test_b16_what_a_cancelled_prefill_took_over_is_given_back() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=8))
    first = rig.submit(a_request(ZEBRA, 4))
    rig.run()
    said = [*ZEBRA, *rig.tokens(first)]
    second = rig.submit(a_request([*said, *range(30)], 4))
    rig.step()
    second.trace.cancelled = True
    rig.run()
    (kept,) = rig.schedule.pool.store
    assert list(kept.tokens) == said[:-1]
    third = rig.submit(a_request([*said, 8], 4))
    rig.run()
    assert third.n_cached == len(said) - 1
    assert rig.tokens(third) == cold_run(third.request)


def test_a_decode_that_was_cancelled_leaves_what_it_computed() -> None:
    rig = LaneRig(RecallingModel())
    first = rig.submit(a_request(ZEBRA, 40))
    for _ in range(5):
        rig.step()
    first.trace.cancelled = True
    rig.run()
    again = rig.submit(a_request([*ZEBRA, *rig.tokens(first), 9], 4))
    rig.run()
    assert again.n_cached == len(ZEBRA) + 4
    assert rig.tokens(again) == cold_run(again.request)


def test_one_with_dropped_calls_leaves_nothing() -> None:
    rig = LaneRig(RecallingModel())
    first = rig.submit(a_request(ZEBRA, 4))
    first.trace.dropped_calls = 1
    rig.run()
    assert len(rig.schedule.pool.store) == 0


def test_a_running_sequences_prompt_is_reused() -> None:
    rig = LaneRig(RecallingModel())
    first = rig.submit(a_request([*ZEBRA, 1], 50))
    rig.step()
    second = rig.submit(a_request([*ZEBRA, 2], 5))
    other = rig.submit(a_request([*ZEBRA, 2], 5, client="other"))
    rig.run()
    assert (second.n_cached, other.n_cached) == (len(ZEBRA), 0)
    for sequence in (first, second, other):
        assert rig.tokens(sequence) == cold_run(sequence.request)


def test_of_equal_prompts_that_come_at_once_one_is_computed() -> None:
    rig = LaneRig(RecallingModel(), limits_of(chunk_tokens=30))
    prompt = [*ZEBRA] * 3
    asked = [rig.submit(a_request([*prompt, i % 2], 5)) for i in range(8)]
    others = rig.submit(a_request(prompt, 5, client="other"))
    n = 0
    while not all(rig.tokens(s) for s in asked):
        rig.step()
        n += 1
    assert n <= 4 + 2  # its prompt, then all others at once
    assert [s.n_cached for s in asked] == [0] + [len(prompt)] * 7
    rig.run()
    assert others.n_cached == 0
    assert all(rig.tokens(s) == cold_run(s.request) for s in [*asked, others])


@pytest.mark.parametrize("field", ["scores_prompt", "traces"])
def test_who_looks_at_the_prompt_computes_all_of_it(field: str) -> None:
    rig = LaneRig(RecallingModel())
    rig.submit(a_request(ZEBRA, 4))
    rig.run()
    again = rig.submit(a_request(ZEBRA, 4, **{field: True}))
    rig.run()
    assert again.n_cached == 0


def test_kept_prefixes_give_way_to_sequences() -> None:
    rig = LaneRig(RecallingModel(), limits_of(kv_bytes=10 * 300))
    for i in range(4):
        rig.submit(a_request([i] * 100, 9))
        rig.run()
    assert rig.schedule.pool.kept_bytes <= 3000
    last = rig.submit(a_request([30] * 280, 9))
    rig.run()
    assert rig.cause(last) is FinishReason.LENGTH
    assert len(rig.schedule.pool.store) == 1


def test_a_long_sequences_memory_does_not_pass_to_one_short_one_alone() -> None:
    limits = limits_of(
        kv_bytes=2048 * TOKEN_BYTES, token_bytes=TOKEN_BYTES, n_context=2048
    )
    rig = LaneRig(RecallingModel(), limits)
    rig.submit(a_request([0, *[1] * 1700], 300))
    rig.run()
    for number in range(8):
        rig.submit(a_request([0, 2 + number, 3], 60))  # they begin alike
    assert rig.step()
    assert rig.schedule.n_running == 8
