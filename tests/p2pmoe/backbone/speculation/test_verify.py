"""What a pass commits, token by token and in distribution."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.generation import GenerationRequest
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafts import DraftWish
from p2pmoe.backbone.speculation.verify import NOTHING, verify
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import RequestFailed
from p2pmoe.model.sampler import SamplingSettings, log_probabilities
from tests.support.drafters import ScriptedDraft, drafting_always
from tests.support.lanes import LaneRig, a_request
from tests.support.recalling_model import RecallingModel, _logits

STOP = 7


def logits_of(tokens: Sequence[int], n_vocab: int = 64) -> np.ndarray:
    """Return rows of which each draws one of these tokens."""
    rows = np.zeros((len(tokens), n_vocab), np.float32)
    rows[np.arange(len(tokens)), list(tokens)] = 1.0
    return rows


def decoding(request: GenerationRequest, n_drafts: int) -> SequenceState:
    """Return a sequence that ran its prompt, its first token and so many drafts."""
    sequence = SequenceState(
        request=request, trace=RequestTrace(), submitted=0.0, deadline=1.0
    )
    sequence.tokens.append(9)
    model = RecallingModel()
    sequence.cache = model.new_cache(100)
    sequence.cache.tokens = [*sequence.tokens, *[0] * n_drafts]
    return sequence


def verified(
    drawn: Sequence[int], drafts: Sequence[int], max_tokens: int = 50
) -> tuple[list[int], int, int]:
    """Return what is committed, how many drafts of it, and the cache's length."""
    request = a_request([1, 2], max_tokens, stop_ids=frozenset({STOP}))
    sequence = decoding(request, len(drafts))
    found = verify(sequence, logits_of(drawn), drafts)
    assert found.error is None
    assert found.n_drafted == len(drafts)
    assert sequence.tokens == [1, 2, 9, *found.tokens]
    assert sequence.cache.length == len(sequence.tokens) - 1
    return list(found.tokens), found.n_accepted, sequence.cache.length


@pytest.mark.parametrize(
    ("drawn", "drafts", "tokens", "n_accepted"),
    [
        ([5], [], [5], 0),
        ([5, 6, 8], [5, 6], [5, 6, 8], 2),  # all right, and one more
        ([5, 6, 8], [4, 6], [5], 0),  # what follows a wrong one is nothing
        ([5, 6, 8], [5, 9], [5, 6], 1),
        ([5, STOP, 8], [5, STOP], [5, STOP], 2),
        ([5, STOP, 8], [5, 9], [5, STOP], 1),  # the stop is the bonus token
        ([STOP, 6, 8], [STOP, 6], [STOP], 1),
    ],
)
def test_what_is_committed(
    drawn: list[int], drafts: list[int], tokens: list[int], n_accepted: int
) -> None:
    assert verified(drawn, drafts)[:2] == (tokens, n_accepted)


@pytest.mark.parametrize("left", [1, 2, 3])
def test_b18_no_more_than_max_tokens(left: int) -> None:
    drawn = [5, 6, 8]
    # One token was drawn before.
    assert verified(drawn, drawn[:2], 1 + left)[0] == drawn[:left]


@given(drawn=st.lists(st.integers(0, 3), min_size=1, max_size=6), data=st.data())
def test_a_block_is_the_drawn_tokens_up_to_the_first_surprise(
    drawn: list[int], data: st.DataObject
) -> None:
    n = len(drawn) - 1
    drafts = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    tokens, n_accepted, _ = verified(drawn, drafts)
    same = [a == b for a, b in zip(drawn, drafts, strict=False)]
    n_same = same.index(False) if False in same else len(same)
    assert (tokens, n_accepted) == (drawn[: n_same + 1], n_same)


def test_what_cannot_be_drawn_ends_a_block_with_its_error() -> None:
    class Ending:
        n = 0

        def allowed(self) -> np.ndarray:
            return np.full(64, self.n < 2)

        def accept(self, token: int) -> None:
            self.n += 1

    sequence = decoding(a_request([1, 2], 50, constraint=Ending), 3)
    found = verify(sequence, logits_of([5, 6, 8, 4]), [5, 6, 8])
    assert found.tokens == (5, 6)
    assert isinstance(found.error, RequestFailed)
    assert sequence.cache.length == len(sequence.tokens) == 5  # both have been run


def test_rows_before_those_of_the_last_token_are_nobodys() -> None:
    sequence = decoding(a_request([1, 2], 50), 1)
    found = verify(sequence, logits_of([3, 3, 5, 6]), [5])
    assert found.tokens == (5, 6)


def test_nothing_is_what_a_prompt_gives() -> None:
    assert (NOTHING.tokens, NOTHING.n_drafted, NOTHING.error) == ((), 0, None)


# In distribution.

N_SEEDS, TOP_K = 1500, 3


def chances(tokens: list[int], sampling: SamplingSettings) -> dict[int, float]:
    """Return the model's own distribution of what follows, filtered as is asked."""
    scores = log_probabilities(np.array(_logits(tokens), np.float32))
    best = np.argsort(-scores, kind="stable")[: sampling.top_k]
    weights = np.exp(scores[best] / sampling.temperature)
    shares = weights / weights.sum()
    return dict(zip(best.tolist(), shares.tolist(), strict=True))


@pytest.mark.parametrize("guess", ["likeliest", "unlikeliest", "another sample"])
def test_sampled_blocks_have_the_models_own_distribution(guess: str) -> None:
    """Three tokens from each of many seeds, the last two of them in one block.

    Chi-square over the 27 outcomes: with 26 degrees of freedom it is above 64 in one
    world of 50,000. The seeds are fixed, so it is always the same.
    """
    prompt = [4, 2]

    def draft(wish: DraftWish) -> list[int]:
        tokens = list(wish.tokens)
        for _ in range(wish.n):
            own = chances(tokens, wish.sampling)
            ordered = sorted(own, key=lambda token: own[token])
            place = -1 if guess == "likeliest" else 0
            if guess == "another sample":
                place = (wish.sampling.seed * 7919) % TOP_K
            tokens.append(ordered[place])
        return tokens[len(wish.tokens) :]

    counts: dict[tuple[int, ...], int] = {}
    speculation = drafting_always(ScriptedDraft(draft), 1)
    rig = LaneRig(RecallingModel(), speculation=lambda: speculation)
    for seed in range(N_SEEDS):
        sampling = SamplingSettings(temperature=1.3, top_k=TOP_K, seed=seed)
        sequence = rig.submit(a_request(prompt, 3, sampling=sampling, client=str(seed)))
        while rig.step():
            pass
        drawn = tuple(sequence.tokens[2:])
        counts[drawn] = counts.get(drawn, 0) + 1
    assert speculation.counts.n_accepted  # some were right
    chi_square, total = 0.0, 0.0
    for first in chances(prompt, sampling):
        for second, third in itertools.product(range(32), repeat=2):
            p = chances(prompt, sampling)[first]
            p *= chances([*prompt, first], sampling).get(second, 0.0)
            if p:
                p *= chances([*prompt, first, second], sampling).get(third, 0.0)
            if p:
                expected = p * N_SEEDS
                seen = counts.pop((first, second, third), 0)
                chi_square += (seen - expected) ** 2 / expected
                total += p
    assert not counts  # nothing came that the model does not allow
    assert total == pytest.approx(1.0)
    assert chi_square < 64.0
