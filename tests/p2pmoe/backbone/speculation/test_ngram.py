from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.drafts import DraftWish
from p2pmoe.backbone.speculation.ngram import LONGEST, NgramDraft
from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings

GREEDY = SamplingSettings(temperature=0.0)


def wish(tokens, n=4, number=1) -> DraftWish:
    cache = KvCache(1, ())
    return DraftWish(number=number, tokens=tokens, cache=cache, sampling=GREEDY, n=n)


def drafted(drafter, tokens, n=4, number=1) -> tuple[int, ...]:
    drafting = drafter.begin([wish(tokens, n, number)])
    while drafting.advance():
        pass
    return drafting.drafts()[0].tokens


def longest(tokens) -> tuple[int, int]:
    """Return the longest earlier match and the latest place behind one, slowly."""
    best = (0, 0)
    for length in range(2, min(LONGEST, len(tokens) - 1) + 1):
        for end in range(len(tokens) - 1, length - 1, -1):
            if tokens[end - length : end] == tokens[-length:]:
                best = (end, length)
                break
    return best


def test_what_followed_the_same_tokens_is_drafted() -> None:
    assert drafted(NgramDraft(), [1, 2, 3, 4, 5, 9, 1, 2, 3], 2) == (4, 5)
    assert drafted(NgramDraft(), [1, 2, 3]) == ()
    assert drafted(NgramDraft(), []) == ()


def test_a_repetition_goes_on_beyond_the_end() -> None:
    assert drafted(NgramDraft(), [7, 8, 7, 8], 5) == (7, 8, 7, 8, 7)


def test_the_latest_of_equally_long_matches_wins() -> None:
    assert drafted(NgramDraft(), [1, 2, 3, 1, 2, 4, 1, 2], 1) == (4,)
    assert drafted(NgramDraft(), [9, 1, 2, 3, 1, 2, 4, 9, 1, 2], 1) == (3,)


def test_a_draft_is_nothing_before_it_was_made() -> None:
    drafting = NgramDraft().begin([wish([1, 2, 1, 2])])
    assert drafting.drafts()[0].tokens == ()


@given(st.lists(st.integers(0, 3), max_size=40))
def test_the_index_finds_what_a_search_finds(tokens) -> None:
    drafter = NgramDraft()
    for end in range(len(tokens) + 1):
        assert drafter.find(1, tokens[:end]) == longest(tokens[:end])


@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.lists(st.integers(0, 2), max_size=6)),
        max_size=12,
    )
)
def test_tokens_that_were_taken_back_are_forgotten(changes) -> None:
    drafter, tokens = NgramDraft(), []
    for n_back, more in changes:
        tokens = tokens[: max(0, len(tokens) - n_back)] + more
        assert drafter.find(1, tokens) == longest(tokens)


def test_sequences_do_not_know_each_other_and_are_forgotten() -> None:
    drafter = NgramDraft()
    assert drafter.find(1, [1, 2, 3, 1, 2]) == (2, 2)
    assert drafter.find(2, [1, 2])[1] == 0
    drafter.forget(1)
    drafter.forget(1)
    assert drafter.find(1, [1, 2])[1] == 0
