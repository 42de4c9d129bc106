"""The last leases over a restart: one a backbone and model, the most recent last."""

from pathlib import Path

import pytest
import trio

from mobile_worker.contribute.last_leases import LastLeases
from mobile_worker.messages import Lease
from relay.tokens import Role
from tests.support.inline_threads import inline_threads
from tests.support.lease_messages import lease
from tests.support.market_peers import identity_of, record_of
from tests.support.trio_test import trio_test


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


def named(number: int, name: bytes = b"lease-01") -> Lease:
    """A lease of backbone `number`."""
    backbone = identity_of(f"backbone {number}")
    return lease(
        1,
        2,
        name=name,
        backbone=backbone.peer_id,
        backbone_record=record_of(backbone, Role.BACKBONE).encoded,
        price_table=b"prices",
    )


@trio_test(autojump=True)
async def test_they_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "last"
    last = LastLeases(path)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(last.run)
        last.granted(named(1))
        last.granted(named(2))
        last.granted(named(1, b"another!"))
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert LastLeases(path).leases == (named(2), named(1, b"another!"))


@trio_test(autojump=True)
async def test_sixteen_are_kept_and_a_disk_that_refuses_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    last = LastLeases(tmp_path / "no folder" / "last")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(last.run)
        for number in range(20):
            last.granted(named(number))
            await trio.sleep(3)
        nursery.cancel_scope.cancel()
    assert last.leases == tuple(named(number) for number in range(4, 20))
    told = [r for r in caplog.records if r.levelname == "WARNING"]
    assert len(told) == 1


@trio_test
async def test_without_a_path_nothing_is_written() -> None:
    last = LastLeases(None)
    last.granted(named(1))
    await last.run()
    assert last.leases == (named(1),)
