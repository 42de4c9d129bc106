"""B32: accepted servings are receipts, with hedge losers and rejected drafts apart.

Over real sessions and accounts, with hedging made as eager as can be: two workers hold
everything that this machine does not, and nearly every call is asked of both.
"""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from p2pmoe.backbone import hedges
from p2pmoe.backbone.cost import WorkerCost
from p2pmoe.backbone.hedging import HedgeBudget
from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.config import DiskPolicy
from tests.integration.test_speculation import maker, requests_of, run_all, run_on
from tests.support.backbone_model import (
    POCKET,
    local_side,
    manifest_of,
    scattered_backbone,
    shards_of,
)
from tests.support.kernels import fastest_kernel
from tests.support.memory_worker import World
from tests.support.nodes import until
from tests.support.trio_test import trio_test


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hedge at the first look, at once, and as often as there is somebody to ask."""
    monkeypatch.setattr(hedges, "HEDGE_FLOOR_S", 0.0)
    monkeypatch.setattr(hedges, "hedge_after", lambda tail, expected_s, other_s: 0.0)
    monkeypatch.setattr(WorkerCost, "p95", lambda self: 0.0)
    monkeypatch.setattr(WorkerCost, "tail", lambda self: (0.0,))
    monkeypatch.setattr(HedgeBudget, "spend", lambda self, n: True)


@trio_test
async def test_b32_accepted_servings_are_calls_and_hedge_losers_and_have_receipts(
    tmp_path: Path, eager: None
) -> None:
    requests = requests_of(2, 12)
    plain = run_all(local_side(POCKET), requests)
    side = local_side(POCKET, hot_share=0.5, policy=DiskPolicy.OFF)
    cold = set(side.hot.sizes) - set(side.hot.resident())
    world = World(manifest_of(POCKET), tmp_path)
    world.ledger.float_leaves = 4096
    async with world.services(), AsyncExitStack() as stack:
        for _ in range(2):
            worker = world.worker(fastest_kernel(), shards_of(POCKET, cold))
            await stack.enter_async_context(worker)
        backbone = await stack.enter_async_context(
            scattered_backbone(
                world,
                side,
                speculation=maker(side, DraftSource.SELF, 4, []),
                n_lanes=1,
            )
        )
        await backbone.covers(cold)
        found = []
        for request in requests:
            tokens, runs = await run_on(backbone, [request])
            found += [(tokens[0], runs[0].end())]
        assert [tokens for tokens, _ in found] == plain
        lane, counters = backbone.engine.lanes[0].totals, backbone.counters
        settlement = backbone.joined.settlement
        dispatcher = backbone.joined.dispatcher  # losers have until their deadlines
        await until(lambda: not dispatcher.n_open, within_s=60)
        assert await backbone.joined.side.drain(60)
        totals = settlement.totals()
        n_calls = sum(
            end.timings.calls.hub + end.timings.calls.edge for _, end in found
        )
    assert counters.hedges["won"] + counters.hedges["lost"] > 0
    assert totals.accepted == n_calls + counters.duplicate_servings
    assert 0 < lane.n_rejected_servings < n_calls
    assert totals.receipted == totals.accepted == world.ledger.n_receipts
    assert totals.unsigned_at_kill == 0
    assert counters.hedge_audits["differed"] == 0
