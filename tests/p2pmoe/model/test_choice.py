import numpy as np
import pytest

from p2pmoe.model.choice import (
    RouterSettings,
    ScoreFunction,
    choose,
    choose_among,
    foreseen_ranks,
)
from p2pmoe.model.errors import ModelRefused
from tests.support import arithmetic_oracle as oracle

SOFTMAX, SIGMOID, SOFTMAX_OF_CHOSEN = ScoreFunction


def settings(
    function=SOFTMAX, top_k=2, *, norm=False, scale=1.0, groups=(1, 1)
) -> RouterSettings:
    return RouterSettings(
        score_function=function,
        top_k=top_k,
        norm=norm,
        scale=scale,
        n_groups=groups[0],
        n_groups_used=groups[1],
    )


def chosen(logits, bias=None, own=None):
    bias = None if bias is None else np.array(bias, np.float32)
    experts, weights = choose(np.array([logits], np.float32), bias, own or settings())
    return experts.tolist(), weights


@pytest.mark.parametrize(
    ("norm", "scale", "expected"),
    [
        (False, 1.0, [0.643914, 0.236883]),
        (True, 1.0, [0.731059, 0.268941]),
        (False, 2.5, [1.609785, 0.592208]),
        (True, 2.5, [1.827647, 0.672354]),
    ],
)
def test_b12_softmax_then_choose_then_norm_then_scale(norm, scale, expected) -> None:
    experts, weights = chosen(
        [2.0, 1.0, 0.0, -1.0], own=settings(norm=norm, scale=scale)
    )
    assert experts == [[0, 1]]
    assert np.allclose(weights[0], expected, atol=1e-6)


def test_b12_mixed_results() -> None:
    for norm, expected in ((False, 1.117680), (True, 1.268941)):
        experts, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(norm=norm))
        mixed = ((np.array(experts[0]) + 1) * weights[0]).sum()
        assert abs(mixed - expected) < 1e-6


def test_b12_all_experts_and_one_expert() -> None:
    experts, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(top_k=4))
    assert experts == [[0, 1, 2, 3]]
    assert abs(weights.sum() - 1.0) < 1e-6
    _, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(top_k=1, norm=True))
    assert weights.tolist() == [[1.0]]


def test_b13_the_bias_chooses_and_never_mixes() -> None:
    own = settings(SIGMOID, norm=True)
    experts, weights = chosen([0.0, 1.0, 2.0, -1.0], [5.0, 0.0, 0.0, 5.0], own)
    assert experts == [[0, 3]]
    assert np.allclose(weights[0], [0.650245, 0.349755], atol=1e-6)
    assert not np.allclose(weights[0], [0.510728, 0.489272], atol=1e-2)  # bias mixed in


def test_b13_a_small_score_survives_a_large_bias() -> None:
    own = settings(SIGMOID, top_k=1)
    experts, weights = chosen([-17.0, -17.5], [12.0, 0.0], own)
    assert experts == [[0]]
    assert abs(weights[0, 0] - 4.14e-8) < 1e-10


@pytest.mark.parametrize("function", ScoreFunction)
def test_b13_equal_scores_go_to_the_lower_id(function: ScoreFunction) -> None:
    own = settings(function)
    assert chosen([1.0, 1.0, 1.0, 1.0], own=own)[0] == [[0, 1]]
    assert chosen([0.0, 1.0, 0.0, 1.0, 1.0], own=own)[0] == [[1, 3]]


def test_experts_ascend_whatever_their_scores() -> None:
    assert chosen([0.0, 1.0, 2.0, 3.0])[0] == [[2, 3]]


def test_b13_masked_groups_are_never_chosen_though_all_ranks_are_negative() -> None:
    """A mask of 0 would be above every rank of the group that stays."""
    own = settings(SIGMOID, norm=True, groups=(2, 1))
    bias = [-3.0, -3.0, -3.0, -2.0, -2.0, -2.0]
    experts, weights = chosen([0.0, 0.0, 0.0, 1.0, 2.0, -9.0], bias, own)
    assert experts == [[3, 4]]
    assert np.allclose(weights[0], [0.453551, 0.546449], atol=1e-6)
    all_three = settings(SIGMOID, top_k=3, groups=(2, 1))
    assert chosen([0.0, 0.0, 0.0, 1.0, 2.0, -9.0], bias, all_three)[0] == [[3, 4, 5]]


def test_a_group_of_sigmoids_is_ranked_by_its_two_best() -> None:
    """Of sigmoids .9 + .1, .6 + .6 and .6 + .5 the second; of softmax the first."""
    logits = [2.2, -2.2, -9.0, 0.4, 0.4, -9.0, 0.4, 0.0, -9.0]
    one_of_three = {"top_k": 1, "groups": (3, 1)}
    assert chosen(logits, own=settings(SIGMOID, **one_of_three))[0] == [[3]]
    for function in (SOFTMAX, SOFTMAX_OF_CHOSEN):
        assert chosen(logits, own=settings(function, **one_of_three))[0] == [[0]]


def test_the_selection_bias_ranks_groups() -> None:
    own = settings(SIGMOID, groups=(2, 1))
    assert chosen([3.0, 3.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], own)[0] == [[2, 3]]


@pytest.mark.parametrize("function", ScoreFunction)
def test_equal_groups_go_to_the_lower_one(function: ScoreFunction) -> None:
    own = settings(function, top_k=3, groups=(4, 2))
    assert chosen([1.0] * 8, own=own)[0] == [[0, 1, 2]]
    logits = [0.0, 1.0, 5.0, 5.0, 0.0, 1.0, 1.0, 0.0]
    assert chosen(logits, own=own)[0] == [[1, 2, 3]]


def test_groups_of_one_expert_are_ranked_by_it() -> None:
    own = settings(SIGMOID, top_k=2, groups=(4, 2))
    assert chosen([1.0, 3.0, 0.0, 2.0], own=own)[0] == [[1, 3]]


def test_all_groups_used_are_no_groups() -> None:
    logits = np.random.default_rng(4).standard_normal((9, 12)).astype(np.float32)
    for function in ScoreFunction:
        plain = choose(logits, None, settings(function, top_k=5))
        grouped = choose(logits, None, settings(function, top_k=5, groups=(4, 4)))
        assert np.array_equal(plain[0], grouped[0])
        assert plain[1].tobytes() == grouped[1].tobytes()


def test_softmax_of_the_chosen_step_by_step() -> None:
    logits = [0.25, -1.0, 3.0, 2.5]
    own = settings(SOFTMAX_OF_CHOSEN, top_k=3, scale=2.5)
    experts, weights = chosen(logits, [0.0, 9.0, 0.0, 0.0], own)
    assert experts == [[1, 2, 3]]  # the bias chose expert 1, and weighs nothing
    parts = [oracle.exp(logit - 3.0) for logit in logits[1:]]
    total = oracle.lane_sum(parts)
    assert weights[0].tolist() == [
        oracle.f32(oracle.f32(p / total) * 2.5) for p in parts
    ]


def test_softmax_of_the_chosen_is_softmax_with_norm() -> None:
    """The two formulas of B12, equal but for rounding."""
    logits = np.random.default_rng(5).standard_normal((6, 16)).astype(np.float32)
    first = choose(logits, None, settings(SOFTMAX_OF_CHOSEN, top_k=4))
    second = choose(logits, None, settings(SOFTMAX, top_k=4, norm=True))
    assert np.array_equal(first[0], second[0])
    assert np.allclose(first[1], second[1], atol=1e-6)


@pytest.mark.parametrize(
    ("n_expert", "top_k", "groups", "said"),
    [
        (8, 0, (1, 1), "top 0 of 8 experts"),
        (8, 9, (1, 1), "top 9 of 8 experts"),
        (8, 5, (4, 2), "top 5 of 8 experts, 2 of 4 groups, which hold 4"),
        (8, 2, (3, 1), "8 experts in 3 groups"),
        (8, 2, (4, 5), "5 of 4 groups"),
        (8, 2, (4, 0), "0 of 4 groups"),
        (8, 2, (0, 0), "0 of 0 groups"),
        (8, 2, (16, 1), "8 experts in 16 groups"),
    ],
)
def test_what_cannot_be_chosen_is_refused(n_expert, top_k, groups, said) -> None:
    with pytest.raises(ModelRefused, match=said):
        settings(top_k=top_k, groups=groups).check(n_expert)


def test_what_fits_is_accepted() -> None:
    settings(top_k=8).check(8)
    settings(top_k=4, groups=(4, 2)).check(8)


AT_HAND = np.array([True, False, True, True])


def among(logits, at_hand=AT_HAND, own=None, substitutes=0.5, bias=None):
    return choose_among(
        np.array([logits], np.float32),
        None if bias is None else np.array(bias, np.float32),
        own or settings(norm=True, scale=2.0),
        np.array(at_hand),
        substitutes=substitutes,
    )


def test_of_experts_at_hand_those_wanted_keep_their_weights() -> None:
    _, weights = chosen([2.0, 1.0, 0.0, -1.0], own=settings(norm=True, scale=2.0))
    choice = among([2.0, 1.0, 0.0, -1.0])
    assert choice.experts.tolist() == [[0, 2]]
    assert np.allclose(choice.weights[0, 0], weights[0, 0], rtol=1e-6)
    # 1 is away: 2 is in its place, with half of what it would weigh beside 0 and 1.
    total = np.exp(2.0) + np.exp(1.0)
    assert np.allclose(choice.weights[0, 1], 0.5 * 2.0 / total)
    assert np.allclose(choice.absent, [[0.0, 2.0 * np.exp(1.0) / total, 0.0, 0.0]])


@pytest.mark.parametrize("function", list(ScoreFunction))
@pytest.mark.parametrize("norm", [False, True])
def test_with_all_at_hand_it_is_the_choice(function, norm) -> None:
    logits = [[0.3, -1.0, 2.0, 0.1]]
    own = settings(function, norm=norm, scale=2.5)
    experts, weights = choose(np.array(logits, np.float32), None, own)
    choice = among(logits[0], np.ones(4, np.bool_), own)
    assert np.array_equal(choice.experts, experts)
    assert np.allclose(choice.weights, weights, rtol=1e-5)
    assert not choice.absent.any()


def test_fewer_or_none_at_hand() -> None:
    choice = among([2.0, 1.0, 0.0, -1.0], [False, False, False, True])
    assert choice.experts.tolist() == [[3]]
    assert np.allclose(choice.absent.sum(), 2.0)
    choice = among([2.0, 1.0, 0.0, -1.0], [False] * 4)
    assert choice.experts.shape == choice.weights.shape == (1, 0)
    assert np.allclose(choice.absent.sum(), 2.0)


def test_the_bias_chooses_among_what_is_at_hand_but_never_weighs() -> None:
    own = settings(SIGMOID, norm=True)
    choice = among([0.0, 0.0, 0.0, 0.0], own=own, bias=[0.0, 3.0, 1.0, 2.0])
    assert choice.experts.tolist() == [[2, 3]]
    assert np.allclose(choice.weights, [[0.25, 0.5]])  # 1 and 3 are wanted
    assert np.allclose(choice.absent, [[0.0, 0.5, 0.0, 0.0]])


def test_groups_mask_nothing_at_hand() -> None:
    own = settings(top_k=2, groups=(2, 1))
    choice = among([3.0, 2.0, 0.0, 0.0], [False, False, True, True], own)
    assert choice.experts.tolist() == [[2, 3]]


def test_what_rows_want_is_ranked_as_they_choose() -> None:
    rng = np.random.default_rng(2)
    logits = rng.standard_normal((5, 8)).astype(np.float32)
    bias = rng.standard_normal(8).astype(np.float32)
    for function in ScoreFunction:
        for own_bias in (None, bias):
            own = settings(function, top_k=3)
            experts, _ = choose(logits, own_bias, own)
            ranks = foreseen_ranks(logits, own_bias, own)
            best = np.sort(np.argsort(-ranks, axis=1)[:, :3], axis=1)
            assert np.array_equal(best, experts)
