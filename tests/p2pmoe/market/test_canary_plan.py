"""Who is asked for which expert in one round."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import MAX_CANARY_EXPERTS
from p2pmoe.market.canary_plan import TICKS, CanaryCycle, Due, HolderView, plan_round
from relay.keys import PeerId

E = [ExpertId(0, n) for n in range(1000)]
BACKBONE = PeerId(b"b" * 32)


def peer(n: int) -> PeerId:
    return PeerId(bytes([n]) * 32)


def holder(n: int, *experts: int, domain: str = "", known: bool = True) -> HolderView:
    return HolderView(
        peer=peer(n),
        domain=domain or f"d{n}",
        is_known=known,
        experts={E[at] for at in experts},
    )


def test_a_cycle_visits_every_expert_once_in_a_period() -> None:
    cycle = CanaryCycle(E, Random(1))
    seen = [cycle.take() for _ in range(TICKS)]
    assert set().union(*seen) == set(E)
    assert sum(map(len, seen)) == len(E)
    again = [cycle.take() for _ in range(TICKS)]
    assert set().union(*again) == set(E)
    assert seen != again


def test_fewer_experts_than_moments_are_visited_too() -> None:
    cycle = CanaryCycle(E[:3], Random(1))
    for _ in range(2):
        seen = [cycle.take() for _ in range(TICKS)]
        assert sum(map(len, seen)) == 3
        assert set().union(*seen) == set(E[:3])


def test_all_holders_are_asked_at_the_same_moment() -> None:
    due = Due(cycle=frozenset({E[0], E[1]}))
    asked, _ = plan_round(due, [holder(1, 0, 1, 2), holder(2, 0), holder(3, 5)], {})
    assert asked == {peer(1): (E[0], E[1]), peer(2): (E[0],)}


def test_a_newcomer_gets_two_helpers_of_other_domains_the_known_first() -> None:
    due = Due(fresh={peer(1): {E[0]}})
    holders = [
        holder(1, 0, domain="a", known=False),
        holder(2, 0, domain="a"),
        holder(3, 0, known=False),
        *(holder(n, 0) for n in range(4, 20)),
    ]
    asked, _ = plan_round(due, holders, {})
    assert set(asked) == {peer(1), peer(4), peer(5)}


def test_newcomers_help_each_other_where_nobody_is_known() -> None:
    due = Due(fresh={peer(1): {E[0]}, peer(2): {E[1]}})
    holders = [holder(1, 0, known=False), holder(2, 0, 1, known=False)]
    asked, backbones = plan_round(due, holders, {BACKBONE: lambda _: True})
    assert asked == {peer(1): (E[0],), peer(2): (E[1], E[0])}
    # None of two newcomers judges the other where known ones are.
    due = Due(fresh={peer(1): {E[0]}, peer(2): {E[0]}})
    old = [holder(3, 0), holder(4, 0), holder(5, 0)]
    asked, _ = plan_round(due, [*holders, *old], {})
    assert asked.keys() == {peer(1), peer(2), peer(3), peer(4)}
    assert backbones == {BACKBONE: (E[0], E[1])}


def test_the_backbone_is_asked_where_two_known_domains_are_not() -> None:
    due = Due(cycle=frozenset(E[:4]), doubted=frozenset({E[3]}))
    holders = [
        holder(1, 0, 1, 2, 3),
        holder(2, 1, 3),
        holder(3, 2, known=False),
    ]
    _, backbones = plan_round(due, holders, {BACKBONE: lambda e: e != E[2]})
    assert backbones == {BACKBONE: (E[0], E[3])}


def test_a_canary_names_at_most_256_experts() -> None:
    due = Due(cycle=frozenset(E))
    asked, backbones = plan_round(
        due, [holder(1, *range(1000))], {BACKBONE: lambda _: True}
    )
    assert len(asked[peer(1)]) == MAX_CANARY_EXPERTS
    assert len(backbones[BACKBONE]) == MAX_CANARY_EXPERTS


@given(
    st.lists(st.frozensets(st.integers(0, 9)), max_size=8),
    st.frozensets(st.integers(0, 9)),
    st.dictionaries(st.integers(0, 7), st.frozensets(st.integers(0, 9)), max_size=3),
)
def test_nobody_is_asked_for_what_it_does_not_hold(held, cycle, fresh) -> None:
    holders = [holder(n, *experts) for n, experts in enumerate(held)]
    due = Due(
        cycle=frozenset(E[at] for at in cycle),
        fresh={peer(n): {E[at] for at in experts} for n, experts in fresh.items()},
    )
    asked, _ = plan_round(due, holders, {})
    for view in holders:
        assert set(asked.get(view.peer, ())) <= view.experts
        assert view.experts & due.cycle <= set(asked.get(view.peer, ()))
        fresh_here = due.fresh.get(view.peer, set())
        assert view.experts & fresh_here <= set(asked.get(view.peer, ()))
