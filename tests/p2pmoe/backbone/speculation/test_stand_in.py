import numpy as np
import pytest

from p2pmoe.backbone.speculation.stand_in import PART, StandIn, StandIns
from p2pmoe.model.experts import Routing

N_EXPERT, N_EMBD = 4, 16


def rows(n: int, seed: int, noise: float = 0.0):
    """Return hidden, weights of experts 2 and 3, and what those add: linear of both."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((n, N_EMBD)).astype(np.float32)
    absent = np.zeros((n, N_EXPERT), np.float32)
    absent[:, 2:] = rng.uniform(0.1, 1.0, (n, 2))
    maps = np.random.default_rng(0).standard_normal((2, N_EMBD, N_EMBD)) / 4
    own = np.random.default_rng(1).standard_normal((2, 1, N_EMBD))
    values = hidden[None] @ maps[0] + own
    added = (absent[:, 2:].T[:, :, None] * values).sum(axis=0)
    added += noise * rng.standard_normal(added.shape)
    return hidden, absent, added.astype(np.float32)


def explained(stand_in: StandIn, seed: int = 99) -> float:
    hidden, absent, added = rows(200, seed)
    guess = stand_in.add(hidden, absent)
    assert guess is not None
    guess = guess / PART
    return 1.0 - float(((added - guess) ** 2).sum() / (added**2).sum())


def taught(n: int, rank: int = N_EMBD, noise: float = 0.0) -> StandIn:
    stand_in = StandIn(N_EXPERT, N_EMBD, rank)
    for seed in range(n // 50):
        stand_in.teach(*rows(50, seed, noise))
        stand_in.settle()
    return stand_in


def test_it_has_no_idea_before_it_was_taught_and_judged() -> None:
    stand_in = StandIn(N_EXPERT, N_EMBD, N_EMBD)
    hidden, absent, _ = rows(3, 1)
    assert stand_in.add(hidden, absent) is None
    stand_in.teach(*rows(100, 1))
    assert not stand_in.settle()  # too few
    stand_in.teach(*rows(100, 2))
    assert stand_in.settle()
    assert not stand_in.settle()
    assert stand_in.add(hidden, absent) is None  # nothing came true of it yet
    assert stand_in.trust == 0.0


def test_it_learns_what_is_linear() -> None:
    early, late = explained(taught(600)), explained(taught(4000))
    assert 0.5 < early < late
    assert late > 0.95
    assert taught(4000).trust > 0.95


def test_a_projection_learns_a_part_of_it() -> None:
    assert 0.2 < explained(taught(2000, rank=8)) < 0.99


def test_rows_without_absent_experts_get_nothing_and_teach_nothing() -> None:
    stand_in = taught(1000)
    hidden, absent, added = rows(5, 3)
    absent[1] = 0.0
    guess = stand_in.add(hidden, absent)
    assert guess is not None
    assert not guess[1].any()
    assert guess[0].any()
    before = stand_in.trust
    stand_in.teach(hidden, np.zeros_like(absent), added)
    assert stand_in.trust == before


def test_what_never_comes_true_is_not_trusted() -> None:
    stand_in = StandIn(N_EXPERT, N_EMBD, N_EMBD)
    rng = np.random.default_rng(4)
    for seed in range(40):
        hidden, absent, added = rows(64, seed)
        stand_in.teach(hidden, absent, rng.standard_normal(added.shape).astype("f4"))
        stand_in.settle()
    assert stand_in.trust < 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
@pytest.mark.parametrize("of", range(3))
def test_values_that_cannot_be_are_left_out(of: int, bad: float) -> None:
    stand_in = taught(1000)
    good = explained(stand_in)
    for seed in range(10):
        hidden, absent, added = rows(64, seed)
        (hidden, absent, added)[of][::2, 3] = bad
        stand_in.teach(hidden, absent, added)
        stand_in.settle()
    assert explained(stand_in) > good - 0.05


def test_layers_are_taught_from_the_results_of_a_pass() -> None:
    known, other, third = (StandIns(N_EXPERT, N_EMBD) for _ in range(3))
    assert known.layer(5) is None
    for seed in range(20):
        hidden, absent, _ = rows(64, seed)
        experts = np.tile(np.array([1, 3]), (64, 1))
        weights = np.stack([absent[:, 2], absent[:, 3]], axis=1)
        values = hidden * 2.0
        everyone = np.arange(64)
        outputs = {1: (everyone, hidden), 3: (everyone, values)}
        routing = Routing(experts=experts, weights=weights)
        known.teach_from(5, hidden, routing, outputs, at_hand={0, 1})
        both = np.stack([hidden, values], axis=1)
        third.teach_values(5, hidden, routing, both, at_hand={0, 1})
        third.teach_values(5, hidden, routing, both, at_hand={1, 3})  # all at hand
        only = np.zeros_like(absent)
        only[:, 3] = absent[:, 3]
        other.teach(5, hidden, only, only[:, 3:] * values)
        for stand_ins in (known, other, third):
            stand_ins.settle()
    mine, theirs = known.layer(5), other.layer(5)
    same = third.layer(5)
    assert same is not None
    assert mine is not None
    assert theirs is not None
    said = mine.add(hidden, only)
    assert said is not None
    assert np.array_equal(said, theirs.add(hidden, only))
    answer = same.add(hidden, only)
    assert answer is not None
    assert np.allclose(said, answer, rtol=1e-4, atol=1e-5)


def test_memory_is_what_was_promised_and_bounded() -> None:
    stand_ins = StandIns(32, 256, rank=64)
    stand_ins.teach(1, *(np.ones((2, n), np.float32) for n in (256, 32, 256)))
    assert stand_ins.n_bytes == StandIns.bytes_per_layer(32, 256, 64)
    most = 3 * StandIns.bytes_per_layer(32, 256, 64)
    found = StandIns.within(32, 256, 3, most)
    assert found is not None
    found.teach(1, *(np.ones((2, n), np.float32) for n in (256, 32, 256)))
    assert found.n_bytes == most // 3
    assert StandIns.within(32, 256, 3, 1000) is None
