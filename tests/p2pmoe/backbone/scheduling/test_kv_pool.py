"""Grants and kept prefixes together never exceed the pool."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.kv_pool import KvPool
from p2pmoe.backbone.scheduling.prefix_store import KeptPrefix
from tests.support.recalling_model import RecallingModel


def prefix(client: str, tokens: list[int], capacity: int) -> KeptPrefix:
    cache = RecallingModel().new_cache(capacity)
    return KeptPrefix(client=client, tokens=np.array(tokens, np.int64), cache=cache)


def test_grants_up_to_the_pool_and_no_further() -> None:
    pool = KvPool(1000, 10)
    assert pool.could_hold(100)
    assert not pool.could_hold(101)
    assert pool.grant(60)
    assert not pool.grant(41)
    assert pool.grant(40)
    assert pool.free_bytes == 0
    pool.release(100)
    assert pool.free_bytes == 1000
    with pytest.raises(ValueError, match="1 of 0"):
        pool.release(1)


def test_what_is_kept_gives_way_least_recently_used_first() -> None:
    pool = KvPool(1000, 10)
    old, young = prefix("a", [1], 40), prefix("a", [2], 40)
    assert pool.keep(old)
    assert pool.keep(young)
    pool.store.use(old)
    assert pool.grant(30)
    assert list(pool.store) == [old]
    assert not pool.grant(40, keeping=old)
    assert pool.grant(40)
    assert len(pool.store) == 0


def test_nothing_is_kept_where_there_is_no_room_or_it_is_there_already() -> None:
    pool = KvPool(1000, 10)
    pool.grant(70)
    assert not pool.keep(prefix("a", [1], 31))
    assert pool.keep(prefix("a", [1, 2], 10))
    assert not pool.keep(prefix("a", [1], 10))
    assert pool.kept_bytes == 100


def test_so_many_are_kept() -> None:
    pool = KvPool(10**9, 10, max_kept=3)
    for i in range(9):
        pool.keep(prefix("a", [i], 5))
    assert [own.tokens[0] for own in pool.store] == [6, 7, 8]


def test_a_prefix_that_is_taken_over_becomes_a_grant() -> None:
    pool = KvPool(1000, 10)
    kept = prefix("a", [1], 40)
    pool.keep(kept)
    pool.take_over(kept)
    assert (pool.granted_bytes, pool.kept_bytes) == (400, 0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["grant", "release", "keep"]), st.integers(1, 60)),
        max_size=60,
    )
)
def test_the_pool_holds(moves: list[tuple[str, int]]) -> None:
    pool = KvPool(1000, 10)
    granted: list[int] = []
    for number, (move, n) in enumerate(moves):
        if move == "grant":
            had_room = pool.has_room(n)
            assert pool.grant(n) == had_room
            granted += [n] * had_room
        elif move == "release" and granted:
            pool.release(granted.pop())
        elif move == "keep":
            pool.keep(prefix("a", [number], n))
        assert pool.granted_bytes == 10 * sum(granted)
        assert pool.kept_bytes == sum(10 * own.capacity for own in pool.store)
        assert pool.free_bytes >= 0


def test_what_is_free_is_granted_without_giving_up_what_is_kept() -> None:
    pool = KvPool(1000, 10)
    pool.keep(prefix("a", [1], 40))
    assert not pool.grant_free(61)
    assert pool.grant_free(60)
    assert (pool.granted_bytes, pool.kept_bytes, pool.free_bytes) == (600, 400, 0)
    assert not pool.grant_free(1)
