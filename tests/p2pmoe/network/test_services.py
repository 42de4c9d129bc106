import functools
from pathlib import Path

import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.session.identity import Identity
from p2pmoe.errors import ConfigurationError
from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.network.network import Network
from p2pmoe.network.services import Membership, run_ledger, run_market
from relay.config import RelayConfig
from relay.keys import SigningKey
from relay.server import serve
from relay.tokens import Role

NETWORK = Network(SigningKey.from_seed(b"n" * 32))
CLOCK = SystemClock()


def with_relay(market, ledger, run) -> None:
    """Start a relay whose network names these services, and run `run(endpoint)`."""
    descriptor = NETWORK.descriptor(market, ledger)

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            config = RelayConfig(
                identity=SigningKey.generate(),
                host="127.0.0.1",
                port=0,
                network=NETWORK.network_id,
                descriptor=descriptor.encoded,
            )
            relay = await nursery.start(
                functools.partial(serve, config, wall_us=CLOCK.wall_us)
            )
            with trio.fail_after(30):
                await run(relay.endpoint("127.0.0.1"))
            nursery.cancel_scope.cancel()

    trio.run(main)


def membership(endpoint, identity: Identity, role: Role) -> Membership:
    return Membership(
        endpoint=endpoint,
        network=NETWORK.network_id,
        token=NETWORK.service_token(identity.peer_id, role),
        identity=identity,
    )


def test_a_service_that_the_network_does_not_name_says_so(tmp_path: Path) -> None:
    named, other = Identity.generate(), Identity.generate()

    async def run(endpoint) -> None:
        with pytest.raises(ConfigurationError, match="the network's market is"):
            await run_market(
                membership(endpoint, other, Role.MARKET),
                tmp_path / "market.json",
                clock=CLOCK,
            )
        with pytest.raises(ConfigurationError, match="the network's ledger is nobody"):
            await run_ledger(
                membership(endpoint, other, Role.LEDGER),
                tmp_path / "ledger",
                clock=CLOCK,
            )

    with_relay(named.peer_id, None, run)


def test_a_ledger_without_a_market_has_no_prices(tmp_path: Path) -> None:
    ledger = Identity.generate()

    async def run(endpoint) -> None:
        with pytest.raises(ConfigurationError, match="no market"):
            await run_ledger(
                membership(endpoint, ledger, Role.LEDGER),
                tmp_path / "ledger",
                clock=CLOCK,
            )

    with_relay(None, ledger.peer_id, run)


def test_both_start_and_end_when_cancelled(tmp_path: Path) -> None:
    market, ledger = Identity.generate(), Identity.generate()

    async def run(endpoint) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(
                functools.partial(
                    run_market,
                    membership(endpoint, market, Role.MARKET),
                    tmp_path / "market.json",
                    clock=CLOCK,
                )
            )
            await nursery.start(
                functools.partial(
                    run_ledger,
                    membership(endpoint, ledger, Role.LEDGER),
                    tmp_path / "ledger",
                    clock=CLOCK,
                )
            )
            nursery.cancel_scope.cancel()
        assert any((tmp_path / "ledger").iterdir())

    with_relay(market.peer_id, ledger.peer_id, run)


def test_a_broken_memory_file_is_named_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "market.json"
    path.write_text("{")

    async def run(endpoint) -> None:
        with pytest.raises(MemoryFileBroken, match=str(path)):
            await run_market(
                membership(endpoint, Identity.generate(), Role.MARKET),
                path,
                clock=CLOCK,
            )

    with_relay(None, None, run)
