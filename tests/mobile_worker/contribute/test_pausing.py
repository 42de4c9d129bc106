"""Resting and going on: short and long pauses, and nobody's fault."""

from dataclasses import replace
from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.contribute.pausing import LONG_S, is_long
from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.pause import Cause, Pause
from mobile_worker.governor.readings import Power
from mobile_worker.links.events import LostReason
from mobile_worker.messages import OutputError
from tests.support.governed import FINE, QUIET, Governed
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import open_stage

BATTERY = replace(FINE, power=Power.BATTERY)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


def pause(cause: Cause, ends_at: float | None = None) -> Pause:
    return Pause(cause=cause, reason="x", ends_when="y", ends_at=ends_at)


@pytest.mark.parametrize(
    ("pauses", "since", "long"),
    [
        ((pause(Cause.BATTERY),), 900.0, False),
        ((pause(Cause.BATTERY),), 1000.0 - LONG_S, True),
        ((pause(Cause.USER, 1000.0 + LONG_S - 1),), 999.0, False),
        ((pause(Cause.USER, 1000.0 + LONG_S),), 999.0, True),
        ((pause(Cause.USER),), 1000.0, True),
        ((pause(Cause.BATTERY), pause(Cause.SCHEDULE, 9000.0)), 1000.0, True),
    ],
)
def test_how_long_is_long(pauses, since: float, *, long: bool) -> None:
    assert is_long(pauses, since, 1000.0) is long


@trio_test(autojump=True)
async def test_a_short_pause_keeps_the_leases_and_goes_on_in_a_round_trip(
    tmp_path: Path,
) -> None:
    governed = Governed()
    async with (
        open_stage(tmp_path) as stage,
        stage.worker(**governed.options()) as running,
    ):
        worker, tab = await stage.serving()
        governed.sensors.readings = BATTERY
        draining = await stage.backbone.hear(messages.Draining, within_s=3.0)
        assert draining.reason == "paused battery: on battery (80 %)"
        answer = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert (answer.error, answer.results) == (OutputError.DRAINING, b"")
        await trio.sleep(300)
        assert running.states[-1] == "paused_battery"
        assert running.statuses[-1].override == "p2pmoe resume"
        assert running.facts[-1].refused == 0
        assert not stage.market.all(messages.Draining)
        assert stage.market.all(messages.Renew)
        stage.hello(worker)  # and is told again, instead of an answer
        await stage.backbone.hear(messages.Draining, within_s=1.0)
        stage.backbone.heard.clear()
        governed.sensors.readings = FINE
        hello = await stage.backbone.hear(messages.Hello, within_s=70.0)
        assert (hello.tab, hello.ack) == (tab, False)
        answer = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert answer.error == OutputError.OK
        assert len(stage.market.all(messages.Offer)) == 1


@trio_test(autojump=True)
async def test_a_long_pause_gives_leases_up_and_shards_come_from_the_store(
    tmp_path: Path,
) -> None:
    governed = Governed()
    async with (
        open_stage(tmp_path) as stage,
        stage.worker(**governed.options()) as running,
    ):
        await stage.held()
        n_gets = len(stage.backbone.all(messages.Get))
        governed.sensors.readings = BATTERY
        await trio.sleep(LONG_S + 10)
        (draining,) = stage.market.all(messages.Draining)
        assert draining.reason.startswith("paused battery")
        assert not stage.market.all(messages.Release)
        assert (running.facts[-1].n_leased, running.facts[-1].use.memory_bytes) == (
            0,
            0,
        )
        assert len(stage.market.all(messages.Offer)) == 1
        stage.market.heard.clear()
        governed.sensors.readings = FINE
        await trio.sleep(70)
        assert stage.market.all(messages.Offer)
        await stage.held()
        assert len(stage.backbone.all(messages.Get)) == n_gets
        assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_a_persons_pause_is_kept_over_a_restart_and_ended_by_resume(
    tmp_path: Path,
) -> None:
    governed = Governed()
    async with open_stage(tmp_path) as stage:
        async with stage.worker(**governed.options()) as running:
            await stage.held()
            governed.controls.governor.pause(None)
            await trio.sleep(2)
            assert running.states[-1] == "paused_user"
            assert len(stage.market.all(messages.Draining)) == 1  # no end is known
        stage.market.heard.clear()
        async with stage.worker(**governed.options()) as running:
            await trio.sleep(120)
            assert running.states[-1] == "paused_user"
            assert not stage.market.all(messages.Offer)
            governed.controls.governor.resume()
            await stage.held()
            await trio.sleep(2)
            assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_a_drain_in_a_pause_stays_a_drain(tmp_path: Path) -> None:
    governed = Governed()
    async with open_stage(tmp_path) as stage:
        async with stage.worker(**governed.options()) as running:
            await stage.serving()
            governed.controls.governor.pause(60.0)
            await trio.sleep(2)
            governed.controls.drain()
            governed.controls.governor.resume()
            await running.ended.wait()
            assert running.states[-1] == "draining"
        assert running.settled == [True]
        assert stage.market.all(messages.Release)


@trio_test(autojump=True)
async def test_a_day_is_counted_and_a_quota_rests(tmp_path: Path) -> None:
    governed = Governed()
    limits = changed(QUIET, {"daily_mb": "1"})
    async with (
        open_stage(tmp_path) as stage,
        stage.worker(**governed.options(limits=limits)) as running,
    ):
        await stage.serving()
        use = running.facts[-1].use
        assert use.max_day_bytes == 1 << 20
        assert stage.network is not None
        governed.controls.governor.spent(up_bytes=1 << 20)  # type: ignore[attr-defined]
        await trio.sleep(3)
        assert running.states[-1] == "paused_quota"
        assert "1 MB used today" in running.statuses[-1].reason
        assert running.statuses[-1].ends_when == "at midnight"


@trio_test(autojump=True)
async def test_changed_limits_are_kept_to_within_a_second(tmp_path: Path) -> None:
    governed = Governed()
    async with (
        open_stage(tmp_path) as stage,
        stage.worker(**governed.options()) as running,
    ):
        await stage.held()
        governor = governed.controls.governor
        governor.set_limits(changed(QUIET, {"up_mbit": "1", "ram_mb": "20"}))
        await trio.sleep(1.5)
        use = running.facts[-1].use
        assert use.max_up_bytes_s == 125_000
        assert use.memory_bytes <= use.max_memory_bytes <= 4 << 20
        governor.set_limits(changed(QUIET, {"ram_mb": "40"}))
        await trio.sleep(1.5)
        assert len(stage.market.all(messages.Offer)) == 2
        assert running.facts[-1].use.max_memory_bytes > 4 << 20


@trio_test(autojump=True)
async def test_who_rests_takes_no_work_without_the_market_either(
    tmp_path: Path,
) -> None:
    governed = Governed()
    async with (
        open_stage(tmp_path) as stage,
        stage.worker(**governed.options()) as running,
    ):
        await stage.held()
        await trio.sleep(5)  # its leases are on disk by then
        governed.controls.governor.pause(None)
        stage.network.disconnect(stage.money.market.peer_id, LostReason.GONE)
        stage.backbone.heard.clear()
        await trio.sleep(300)
        assert not stage.backbone.all(messages.Offer)
        assert running.facts[-1].n_leased == 0
