from pathlib import Path

import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.links import NodeSettings, open_node
from mobile_worker.session.identity import Identity
from p2pmoe.errors import ConfigurationError
from p2pmoe.network.invite import read_invite
from p2pmoe.network.operator import OperatorConfig, Started, run_operator
from relay.errors import ListenError, TokenRefused
from relay.tls import SelfSigned
from relay.tokens import Role


def config(folder: Path, **changes) -> OperatorConfig:
    values = {
        "folder": folder,
        "host": "127.0.0.1",
        "port": 0,
        "tls": SelfSigned(),
    }
    return OperatorConfig(**(values | changes))


def with_network(options: OperatorConfig, check) -> None:
    """Run an operator's network, and `check(started)` while it is up."""

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            up = trio.Event()
            reports: list[Started] = []

            def started(report: Started) -> None:
                reports.append(report)
                up.set()

            async def network() -> None:
                await run_operator(options, clock=SystemClock(), started=started)

            nursery.start_soon(network)
            with trio.fail_after(30):
                await up.wait()
                await check(reports[0])
            nursery.cancel_scope.cancel()

    trio.run(main)


def member(started: Started, **changes) -> NodeSettings:
    invite = read_invite(started.invite)
    values = {
        "identity": Identity.generate(),
        "role": Role.WORKER,
        "endpoints": (invite.relay,),
        "token": invite.token,
        "network": invite.network,
    }
    return NodeSettings(**(values | changes))


def test_the_invite_lets_a_member_in_and_names_the_services(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        async with open_node(member(started)) as node:
            assert node.descriptor is not None
            assert node.descriptor.market == started.market
            assert node.descriptor.ledger == started.ledger
        with pytest.raises(TokenRefused):
            async with open_node(member(started, token=b"")):
                pass

    with_network(config(tmp_path), check)


def test_ids_and_invite_stay_over_a_restart(tmp_path: Path) -> None:
    seen = []

    async def check(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        seen.append((started.relay.relay_id, started.market, started.ledger))
        seen.append(read_invite(started.invite).network)

    for _ in range(2):
        with_network(config(tmp_path), check)
    assert seen[:2] == seen[2:]


def test_an_open_relay_admits_a_stranger(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        async with open_node(member(started, token=b"")) as node:
            assert node.descriptor is not None

    with_network(config(tmp_path, open=True), check)


def test_behind_a_front_the_services_still_reach_the_relay(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        assert started.endpoint.url == "wss://relay.example/relay"
        assert started.endpoint.relay_id == started.relay.relay_id
        assert not started.relay.secure

    options = config(
        tmp_path, tls=None, behind_front=True, public_url="wss://relay.example/relay"
    )
    with_network(options, check)


def test_the_relay_alone_names_services_elsewhere(tmp_path: Path) -> None:
    market, ledger = (Identity.generate().peer_id for _ in range(2))

    async def check(started: Started) -> None:
        async with open_node(member(started)) as node:
            assert node.descriptor is not None
            assert (node.descriptor.market, node.descriptor.ledger) == (market, ledger)

    with_network(config(tmp_path, only=True, market=market, ledger=ledger), check)


def test_a_port_in_use_is_one_error(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        port = started.relay.port
        second = config(tmp_path / "second", port=port)
        with pytest.raises(ExceptionGroup) as caught:
            await run_operator(second, clock=SystemClock(), started=lambda _: None)
        assert caught.group_contains(ListenError, match=f"port {port}")

    with_network(config(tmp_path), check)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"behind_front": True, "tls": None}, "does not know its own address"),
        ({"market": bytes(32)}, "run elsewhere"),
    ],
)
def test_contradictions_are_refused(changes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        config(tmp_path, **changes)
