"""Drawing: penalties, masks, log probabilities with ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.drawing import draw, logprobs_of, score_prompt
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.trace import RequestTrace
from p2pmoe.errors import RequestFailed
from p2pmoe.model.sampler import SamplingSettings, log_probabilities
from tests.support.lanes import a_request


def state(**changes: object) -> SequenceState:
    request = a_request([5, 1], 4, **changes)
    return SequenceState(
        request=request, trace=RequestTrace(), submitted=0.0, deadline=1.0
    )


def logits(**raised: float) -> np.ndarray:
    values = np.zeros(8, np.float32)
    for name, value in raised.items():
        values[int(name[1:])] = value
    return values


def test_penalties_see_the_prompt_and_what_was_said() -> None:
    settings = SamplingSettings(temperature=0.0, presence_penalty=2.0)
    sequence = state(sampling=settings)
    tokens = [draw(sequence, logits(t5=1.0, t6=0.5))[0] for _ in range(3)]
    assert len({5, 1, *tokens}) == 5
    assert sequence.tokens == [5, 1, *tokens]


class Only:
    def __init__(self, *tokens: int) -> None:
        self.tokens = tokens
        self.heard: list[int] = []

    def allowed(self) -> np.ndarray:
        return np.isin(np.arange(8), self.tokens)

    def accept(self, token: int) -> None:
        self.heard.append(token)


@pytest.mark.parametrize("temperature", [0.0, 1.0, 50.0])
@pytest.mark.parametrize("filters", [{}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.3}])
def test_only_what_is_allowed_comes(temperature: float, filters: dict) -> None:
    rule = Only(2, 3)
    settings = SamplingSettings(
        temperature=temperature,
        repetition_penalty=1.5,
        frequency_penalty=0.5,
        **filters,
    )
    sequence = state(constraint=lambda: rule, sampling=settings, n_top_logprobs=1)
    for _ in range(20):
        token, told = draw(sequence, logits(t5=9.0, t2=-1.0))
        assert token in {2, 3}
        assert told is not None
        assert told.top[0][0] == 5  # of the model itself, before the rule
    assert rule.heard == sequence.tokens[2:]


@pytest.mark.parametrize("mask", [np.zeros(8, bool), np.ones(7, bool)])
def test_a_rule_that_allows_nothing_is_an_error(mask: np.ndarray) -> None:
    rule = Only()
    rule.allowed = lambda: mask
    with pytest.raises(RequestFailed, match="allows no token"):
        draw(state(constraint=lambda: rule), logits())


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=20), st.integers(0, 25))
def test_the_likeliest_tokens_best_first_and_the_lower_id_among_equals(
    values: list[int], n_top: int
) -> None:
    own = np.array(values, np.float32)
    told = logprobs_of(own, len(values) - 1, n_top)
    scores = log_probabilities(own)
    best = sorted(range(len(values)), key=lambda i: (-scores[i], i))[:n_top]
    assert [i for i, _ in told.top] == best
    assert [p for _, p in told.top] == [scores[i] for i in best]
    assert told.logprob == scores[-1]
    assert abs(sum(np.exp(scores)) - 1) < 1e-9


def test_a_prompt_is_scored_in_pieces_of_any_size() -> None:
    request = a_request(range(6), 2, scores_prompt=True)
    rows = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
    scored = []
    for cuts in ([6], [1, 5], [2, 2, 2], [6, 6]):
        sequence = SequenceState(
            request=request, trace=RequestTrace(), submitted=0.0, deadline=1.0
        )
        first = 0
        for n in cuts:
            first %= 6  # the last is run again, as after a preemption
            score_prompt(sequence, rows[first : first + n], first)
            first += n
        scored.append(sequence.prompt_logprobs)
    assert scored[0] == scored[1] == scored[2] == scored[3]
    assert [own.token for own in scored[0]] == list(range(6))
    assert [own.logprob is None for own in scored[0]] == [True] + [False] * 5
