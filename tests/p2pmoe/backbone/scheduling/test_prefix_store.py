"""Found by content and client, the longest first (fault B16)."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.prefix_store import (
    KeptPrefix,
    PrefixStore,
    n_common,
)
from tests.support.recalling_model import RecallingModel


def kept(client: str, tokens: list[int]) -> KeptPrefix:
    cache = RecallingModel().new_cache(max(1, len(tokens)))
    return KeptPrefix(client=client, tokens=np.array(tokens, np.int64), cache=cache)


def found(store: PrefixStore, client: str, tokens: list[int]) -> tuple[list[int], int]:
    match = store.find(client, np.array(tokens, np.int64))
    return ([], 0) if match is None else (match[0].tokens.tolist(), match[1])


def test_b16_the_longest_common_prefix_of_the_same_client() -> None:
    store = PrefixStore()
    for client, tokens in (("a", [1, 2, 3, 4]), ("a", [1, 2, 9]), ("b", [1, 2, 3, 4])):
        store.add(kept(client, tokens))
    assert found(store, "a", [1, 2, 3, 5, 6]) == ([1, 2, 3, 4], 3)
    assert found(store, "a", [1, 2, 9]) == ([1, 2, 9], 3)
    assert found(store, "b", [1, 2, 9])[1] == 2
    assert found(store, "b", [2]) == ([], 0)
    assert found(store, "c", [1, 2, 3, 4]) == ([], 0)


def test_one_that_goes_on_from_another_replaces_it() -> None:
    store = PrefixStore()
    for client, tokens in (("a", [1, 2]), ("b", [1, 2]), ("a", [1, 2, 3])):
        store.add(kept(client, tokens))
    assert [(own.client, own.tokens.tolist()) for own in store] == [
        ("b", [1, 2]),
        ("a", [1, 2, 3]),
    ]
    assert store.n_positions == 5
    assert not store.is_new("a", np.array([1, 2]))
    assert store.is_new("a", np.array([1, 3]))


def test_use_makes_it_the_last_to_go() -> None:
    store = PrefixStore()
    first, second = kept("a", [1]), kept("a", [2])
    store.add(first)
    store.add(second)
    store.use(first)
    assert list(store) == [second, first]
    store.remove(second)
    assert len(store) == store.n_positions == 1


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_what_two_have_in_common(a: list[int], b: list[int]) -> None:
    n = n_common(np.array(a, np.int64), np.array(b, np.int64))
    assert a[:n] == b[:n]
    assert n in {len(a), len(b)} or a[n] != b[n]
