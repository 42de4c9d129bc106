"""Every call is in exactly one place, and in the cheapest."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.cost import CallSample, LocalCost, WorkerCost
from p2pmoe.backbone.plan import (
    ExpertRows,
    Holder,
    LayerPlan,
    LayerQuestion,
    Tier,
    plan_layer,
)
from p2pmoe.config import DiskPolicy
from relay.keys import PeerId


def peer(n: int) -> PeerId:
    return PeerId(bytes([n]) * 32)


def holder(n: int, *, rtt: float = 0.01, per_row: float = 0.001, served: int = 0):
    cost = WorkerCost()
    cost.observe(
        CallSample(elapsed_s=rtt + per_row, compute_s=per_row, n_rows=1, n_bytes=900)
    )
    tier = Tier.HUB if rtt < 0.005 else Tier.EDGE
    cost.n_rows_sent = served
    return Holder(peer=peer(n), tier=tier, cost=cost)


def calls(*experts: int, rows: tuple[int, ...] = (0,)) -> list[ExpertRows]:
    return [ExpertRows(expert=e, rows=rows) for e in experts]


def plan(
    wanted: list[ExpertRows],
    holders: dict[int, list[Holder]],
    *,
    at_hand: frozenset[int] = frozenset(),
    disk: DiskPolicy = DiskPolicy.FALLBACK,
    local: LocalCost | None = None,
) -> LayerPlan:
    return plan_layer(
        LayerQuestion(
            layer=1,
            calls=wanted,
            at_hand=at_hand,
            holders=holders,
            disk=disk,
            local=local or LocalCost(),
            row_bytes=900,
            expert_bytes=55_000,
        )
    )


def test_at_hand_is_ram_and_never_sent() -> None:
    result = plan(calls(1, 2), {1: [holder(1)], 2: [holder(1)]}, at_hand=frozenset({1}))
    assert [c.expert for c in result.ram] == [1]
    assert [c.expert for w in result.remote for c in w.calls] == [2]
    assert result.waits


def test_one_message_per_worker_and_layer() -> None:
    one = holder(1)
    result = plan(calls(3, 1, 2), {e: [one] for e in (1, 2, 3)})
    assert len(result.remote) == 1
    assert [c.expert for c in result.remote[0].calls] == [1, 2, 3]


def test_fallback_prefers_a_live_holder_and_the_disk_only_without() -> None:
    result = plan(calls(1, 2), {1: [holder(1, rtt=3.0)]})
    assert [c.expert for w in result.remote for c in w.calls] == [1]
    assert [c.expert for c in result.disk] == [2]


def test_off_strands_what_nobody_holds() -> None:
    result = plan(calls(1, 2), {1: [holder(1)]}, disk=DiskPolicy.OFF)
    assert [c.expert for c in result.stranded] == [2]
    assert not result.disk


def test_tier_weighs_the_disk_against_the_network() -> None:
    far, near = {1: [holder(1, rtt=0.2)]}, {1: [holder(1, rtt=0.0001, per_row=0.0001)]}
    slow_disk = LocalCost()
    slow_disk.observe_read(1.0, 55_000)
    assert plan(calls(1), far, disk=DiskPolicy.TIER).disk
    assert not plan(calls(1), near, disk=DiskPolicy.TIER, local=slow_disk).disk


def test_replicas_share_the_load() -> None:
    rested, busy = holder(1, served=5), holder(2, served=900)
    result = plan(calls(1), {1: [busy, rested]})
    assert result.remote[0].peer == rested.peer


def test_a_long_queue_sends_work_to_the_other_replica() -> None:
    queued, free = holder(1), holder(2, served=10_000)
    queued.cost.in_flight_rows = 500
    assert plan(calls(1), {1: [queued, free]}).remote[0].peer == free.peer


def test_heavy_layers_spread_over_replicas_and_light_ones_bundle() -> None:
    pair = [holder(1, rtt=0.05), holder(2, rtt=0.05)]
    light = plan(calls(1, 2), {1: pair[:1], 2: [holder(1, rtt=0.05), pair[1]]})
    assert {w.peer for w in light.remote} <= {peer(1), peer(2)}
    heavy = plan(calls(*range(8), rows=tuple(range(64))), dict.fromkeys(range(8), pair))
    assert len(heavy.remote) == 2
    sizes = [w.n_rows for w in heavy.remote]
    assert max(sizes) <= 2 * min(sizes)


@given(
    st.sets(st.integers(0, 20), max_size=12),
    st.dictionaries(st.integers(0, 20), st.sets(st.integers(1, 4)), max_size=20),
    st.sets(st.integers(0, 20)),
    st.sampled_from(list(DiskPolicy)),
)
def test_b14_every_call_is_in_exactly_one_place(
    wanted: set[int],
    who: dict[int, set[int]],
    at_hand: set[int],
    disk: DiskPolicy,
) -> None:
    workers = {n: holder(n) for n in range(1, 5)}
    holders = {e: [workers[n] for n in sorted(ns)] for e, ns in who.items()}
    asked = calls(*sorted(wanted), rows=(0, 2))
    result = plan(asked, holders, at_hand=frozenset(at_hand), disk=disk)
    placed = [*result.ram, *result.disk, *result.stranded]
    placed += [c for w in result.remote for c in w.calls]
    assert sorted(c.expert for c in placed) == sorted(wanted)
    assert all(c.rows == (0, 2) for c in placed)
    assert len({w.peer for w in result.remote}) == len(result.remote)
    for message in result.remote:
        for call in message.calls:
            assert message.peer in {h.peer for h in holders[call.expert]}
