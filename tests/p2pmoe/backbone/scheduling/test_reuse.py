"""Where first positions come from: copied, handed over, or not at all."""

import numpy as np

from p2pmoe.backbone.scheduling.kv_pool import KvPool
from p2pmoe.backbone.scheduling.prefix_store import KeptPrefix
from p2pmoe.backbone.scheduling.reuse import (
    Opening,
    begin_from_kept,
    begin_from_others,
    keep_of,
    tell_others,
    waits_for_another,
)
from p2pmoe.backbone.scheduling.sequence import Origin, SequenceState
from p2pmoe.backbone.trace import RequestTrace
from tests.support.lanes import a_request
from tests.support.recalling_model import RecallingModel

MODEL = RecallingModel()


def state(tokens: list[int], client: str = "a") -> SequenceState:
    return SequenceState(
        request=a_request(tokens, 50, client=client),
        trace=RequestTrace(),
        submitted=0.0,
        deadline=1.0,
    )


def pool_with(n_positions: int, tokens: list[int], capacity: int) -> KvPool:
    pool = KvPool(10 * n_positions, 10)
    cache = MODEL.new_cache(capacity, limit=4096)
    cache.tokens = list(tokens)
    key = np.array(tokens, np.int64)
    assert pool.keep(KeptPrefix(client="a", tokens=key, cache=cache))
    return pool


def test_what_goes_on_from_nearly_all_takes_the_memory_over() -> None:
    pool = pool_with(200, list(range(20)), 30)
    sequence = state([*range(19), 99, 98])
    assert begin_from_kept(pool, sequence, Opening(room=60, spare=0))
    assert sequence.origin is not None
    assert (sequence.origin.is_own, sequence.origin.length) == (True, 19)
    assert sequence.n_restored == 19
    assert (pool.granted_bytes, pool.kept_bytes) == (600, 0)


def test_a_memory_larger_than_asked_for_is_granted_whole() -> None:
    pool = pool_with(200, list(range(20)), 90)
    sequence = state([*range(20), 99])
    assert begin_from_kept(pool, sequence, Opening(room=60, spare=0))
    assert sequence.room == 90
    assert pool.granted_bytes == 900


def test_a_memory_far_larger_than_asked_for_is_copied_or_gives_way() -> None:
    pool = pool_with(200, list(range(20)), 130)
    fits_beside = state([*range(20), 99])
    assert begin_from_kept(pool, fits_beside, Opening(room=60, spare=0))
    assert (fits_beside.room, pool.granted_bytes, pool.kept_bytes) == (60, 600, 1300)
    tight = state([*range(20), 98])
    assert begin_from_kept(pool, tight, Opening(room=60, spare=0))
    assert (tight.room, pool.granted_bytes, pool.kept_bytes) == (60, 1200, 0)


def test_what_branches_off_leaves_it_to_others_while_there_is_room() -> None:
    pool = pool_with(200, list(range(20)), 30)
    sequence = state([*range(9), 99])
    assert begin_from_kept(pool, sequence, Opening(room=60, spare=100))
    assert sequence.origin is None
    begin_from_others(pool, sequence, [])
    assert sequence.origin is not None
    assert (sequence.origin.is_own, sequence.origin.length) == (False, 9)
    tight = state([*range(9), 99])
    assert begin_from_kept(pool, tight, Opening(room=120, spare=0))
    assert tight.origin is not None
    assert tight.origin.is_own
    assert not begin_from_kept(pool, state([7]), Opening(room=21, spare=0))


def test_what_a_lane_is_about_to_copy_is_not_handed_over() -> None:
    pool = pool_with(200, list(range(20)), 30)
    (kept,) = pool.store
    copies = state([*range(9), 99])
    copies.origin = Origin(cache=kept.cache, length=9, is_own=False)
    follows = state([*range(20), 5])
    opening = Opening(room=60, spare=0, others=(copies,))
    assert begin_from_kept(pool, follows, opening)
    assert follows.origin is None
    assert list(pool.store) == [kept]
    crowded = Opening(room=180, spare=0, others=(copies,))
    assert not begin_from_kept(pool, state([*range(20), 5]), crowded)


def test_another_that_runs_is_copied_once_its_prompt_is_complete() -> None:
    pool = KvPool(10_000, 10)
    runs = state([1, 2, 3, 4])
    runs.cache = MODEL.new_cache(50)
    runs.cache.tokens = [1, 2]
    begins = state([1, 2, 3, 9])
    begins.room = 50
    begin_from_others(pool, begins, [runs])
    assert begins.origin is None
    runs.tokens.append(5)
    runs.cache.tokens = [1, 2, 3, 4]
    begin_from_others(pool, begins, [runs])
    assert begins.origin is not None
    assert (begins.origin.length, begins.origin.is_own) == (3, False)
    other = state([1, 2, 3, 9], client="b")
    begin_from_others(pool, other, [runs])
    assert other.origin is None


def test_what_an_ended_one_leaves() -> None:
    sequence = state([1, 2, 3])
    assert keep_of(sequence) is None
    sequence.cache = MODEL.new_cache(9)
    sequence.cache.tokens = [1, 2]
    assert keep_of(sequence) is None  # in mid-prefill
    sequence.n_restored = 1
    restored = keep_of(sequence)
    assert restored is not None
    assert restored.tokens.tolist() == restored.cache.tokens == [1]
    sequence.tokens += [7, 8]
    sequence.cache.tokens = [1, 2, 3, 7]
    whole = keep_of(sequence)
    assert whole is not None
    assert whole.tokens.tolist() == [1, 2, 3, 7]
    sequence.trace.dropped_calls = 1
    assert keep_of(sequence) is None


def test_a_memory_taken_over_and_never_used_is_given_back() -> None:
    sequence = state([1, 2, 3])
    cache = MODEL.new_cache(9)
    cache.tokens = [1, 2, 8]
    sequence.origin = Origin(cache=cache, length=2, is_own=True)
    sequence.n_restored = 2
    back = keep_of(sequence)
    assert back is not None
    assert back.tokens.tolist() == cache.tokens == [1, 2]


def test_others_of_the_client_hear_of_one_that_is_whole() -> None:
    whole = state([1, 2, 3])
    same, begun, other = state([1, 2, 3]), state([1, 2, 3]), state([1, 2, 3], "b")
    begun.cache = MODEL.new_cache(9)
    tell_others(whole, [whole, same, begun, other])
    assert (same.n_hint, begun.n_hint, other.n_hint) == (2, 0, 0)
    assert (same.n_expected, other.n_expected) == (1, 3)


def test_one_waits_while_another_computes_most_of_its_prompt() -> None:
    first = state([1, 2, 3, 4])
    follows, differs, other = state([1, 2, 3, 9]), state([1, 7, 8, 9]), state([1], "b")
    running = [first, follows, differs, other]
    assert not any(waits_for_another(s, running) for s in running)
    first.cache = MODEL.new_cache(9)
    waiting = [s for s in running if waits_for_another(s, running)]
    assert waiting == [follows]
    longer = state([1, 2, 3, 4, 5, 6, 7])
    longer.cache = MODEL.new_cache(9)
    assert not waits_for_another(follows, [longer, follows])  # it would take longer
    first.parked_until = 5.0
    assert not waits_for_another(follows, running)
    first.parked_until = None
    first.tokens.append(6)  # it is whole
    assert not waits_for_another(follows, running)
