import logging
import os
import signal
from pathlib import Path

import httpx
import pytest
import trio

from mobile_worker.clock import SystemClock
from mobile_worker.links import NodeSettings, open_node
from mobile_worker.session.identity import Identity
from p2pmoe.errors import ConfigurationError
from p2pmoe.network import operator
from p2pmoe.network.folder import OperatorFolder
from p2pmoe.network.invite import read_invite
from p2pmoe.network.network import Network
from p2pmoe.network.operator import OperatorConfig, Started, run_operator
from p2pmoe.network.revoking import revoke
from relay.errors import CertificateError, EndpointError, ListenError, TokenRefused
from relay.relay_map import RelayEntry, RelayMap, sign_map
from relay.revocations import token_hash
from relay.server_tls import ServerTls
from relay.tls import SelfSigned
from relay.tokens import Role
from tests.support.relays import key

SHOWN = "s3cret"


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


def test_a_hangup_takes_up_what_was_revoked(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "p2pmoe.network")
    limits = tmp_path / "limits.toml"
    limits.write_text("[hub]\nframes_s = 500\n")

    async def check(started: Started) -> None:
        folder = OperatorFolder(tmp_path)
        identity = Identity.generate()
        async with open_node(member(started, identity=identity)):
            peers = started.relay.switch.registry.active
            assert peers[identity.peer_id].limits.frames_s == 500
            limits.write_text("[hub]\nframes_s = 0\n")
            await hang_up(caplog, 1)
            limits.write_text("[hub]\nframes_s = 700\n")
            revoke(folder, Network.load(folder.network_key), peers=[identity.peer_id])
            await hang_up(caplog, 2)
            while identity.peer_id in peers:
                await trio.lowlevel.checkpoint()
        assert started.relay.live.revoked.version == 1
        with pytest.raises(TokenRefused, match="shut this peer out"):
            async with open_node(member(started, identity=identity)):
                pass

    with_network(config(tmp_path, limits=limits), check)
    broken, done = [r.getMessage() for r in caplog.records if "reloaded" in r.msg]
    assert broken.startswith("nothing reloaded: limits file")
    assert "frames_s is not a number" in broken
    assert done.startswith("reloaded: 0 tokens and 1 peers revoked, relay map none")


def test_a_hangup_replaces_an_invite_that_was_revoked(tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.INFO, "p2pmoe.network")

    async def check(started: Started) -> None:
        folder = OperatorFolder(tmp_path)
        network = Network.load(folder.network_key)
        before = read_invite(folder.invite)
        await hang_up(caplog, 1)
        assert read_invite(folder.invite) == before
        revoke(folder, network, tokens=[token_hash(before.token)])
        await hang_up(caplog, 2)
        assert read_invite(folder.invite).token != before.token
        async with open_node(member(started)):
            pass
        revoke(folder, network, tokens=[token_hash(read_invite(folder.invite).token)])
        folder.invites.write_text("nonsense")
        await hang_up(caplog, 3)
        assert started.relay.live.revoked.version == 2

    with_network(config(tmp_path, only=True), check)
    (line,) = [r.getMessage() for r in caplog.records if "invite" in r.msg]
    assert line.startswith("the invite stays as it was: ")


@pytest.mark.parametrize("broken", [False, True])
def test_a_certificate_is_read_with_the_other_files(
    broken: bool, tmp_path: Path, caplog, monkeypatch
) -> None:
    caplog.set_level(logging.INFO, "p2pmoe.network")

    def renew(_tls: ServerTls) -> bool:
        if broken:
            raise CertificateError("certificate c.pem: no start line")
        return True

    monkeypatch.setattr(ServerTls, "renew", renew)

    async def check(started: Started) -> None:
        folder = OperatorFolder(tmp_path)
        revoke(folder, Network.load(folder.network_key), peers=[key(1).peer_id])
        await hang_up(caplog, 1)
        assert started.relay.live.revoked.version == (0 if broken else 1)

    with_network(config(tmp_path, only=True), check)
    (line,) = [r.getMessage() for r in caplog.records if "reloaded" in r.msg]
    assert ("no start line; give --cert" if broken else ", a new certificate") in line


async def hang_up(caplog, n_lines: int) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    while sum("reloaded" in record.msg for record in caplog.records) < n_lines:
        await trio.lowlevel.checkpoint()


def test_a_relay_host_needs_no_key_of_the_network(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    other.mkdir()

    async def first(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        raw = (home / "network.descriptor").read_bytes()
        (other / "network.descriptor").write_bytes(raw)

    with_network(config(home, only=True), first)
    invite = read_invite(home / "invite.json")

    async def second(started: Started) -> None:
        assert started.invite is None
        settings = NodeSettings(
            identity=Identity.generate(),
            role=Role.WORKER,
            endpoints=(started.endpoint,),
            token=invite.token,
            network=invite.network,
        )
        async with open_node(settings) as node:
            assert node.descriptor is not None
            assert node.descriptor.market == started.market

    with_network(config(other, only=True), second)
    assert sorted(path.name for path in other.iterdir()) == [
        "network.descriptor",
        "relay.key",
    ]


def test_a_shard_is_a_relay_of_its_own(tmp_path: Path) -> None:
    ids = []

    async def check(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        assert started.endpoint.url.endswith("/relay/3")
        ids.append(started.relay.relay_id)

    url = "wss://relay.example/relay"
    front = {"tls": None, "behind_front": True, "only": True, "shard": 3}
    with_network(config(tmp_path, public_url=url, **front), check)
    with_network(config(tmp_path, public_url=f"{url}/3", **front), check)

    async def whole(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        ids.append(started.relay.relay_id)

    with_network(config(tmp_path, only=True), whole)
    assert ids[0] == ids[1] != ids[2]


def test_the_invite_names_the_other_relays_of_the_map(tmp_path: Path) -> None:
    folder = OperatorFolder(tmp_path)
    network = Network.load_or_create(folder.network_key)
    entries = (
        RelayEntry("wss://b.example/relay", key(1).peer_id),
        RelayEntry("wss://c.example/relay", key(2).peer_id, draining=True),
    )
    made = RelayMap(network=network.network_id, version=1, entries=entries)
    folder.relay_map.write_bytes(sign_map(made, network.sign).encoded)

    async def check(started: Started) -> None:
        await trio.lowlevel.checkpoint()
        assert started.relay.live.map_version == 1
        invite = read_invite(tmp_path / "invite.json")
        assert invite.relays == (started.endpoint, entries[0].endpoint)

    with_network(config(tmp_path, only=True), check)


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


def test_a_public_url_is_judged_before_anything_is_opened(tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="wss://"):
        config(tmp_path, public_url="https://relay.example")


def test_its_relay_shows_the_market_and_itself(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        url = f"http://127.0.0.1:{started.relay.port}/status"
        async with httpx.AsyncClient(trust_env=False) as client:
            told = (await client.get(url)).json()
        assert set(told) == {"network", "workers", "models", "grids", "relay"}
        assert (told["workers"]["n"], told["models"]) == (0, [])
        assert told["relay"]["roles"] == {"market": 1, "ledger": 1}

    with_network(config(tmp_path), check)


def test_metrics_are_for_loopback_or_a_token(tmp_path: Path) -> None:
    """A front on this host comes from loopback too: its header tells."""

    async def check(started: Started) -> None:
        url = f"https://127.0.0.1:{started.relay.port}/metrics"
        elsewhere = {"X-Forwarded-For": "192.0.2.7"}
        asked = (
            (200, {}),
            (404, elsewhere),
            (404, {**elsewhere, "Authorization": "Bearer another"}),
            (200, {**elsewhere, "Authorization": f"Bearer {SHOWN}"}),
        )
        # The certificate is the relay's own id, which no authority vouches for.
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:  # noqa: S501
            for status, headers in asked:
                assert (await client.get(url, headers=headers)).status_code == status

    options = config(tmp_path, metrics_token=SHOWN)
    assert SHOWN not in repr(options)
    with_network(options, check)


def test_a_neutral_page_has_no_status_behind_it(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(f"http://127.0.0.1:{started.relay.port}/")

    with_network(config(tmp_path, neutral_page=True), check)


def test_queues_take_a_quarter_of_a_containers_memory(monkeypatch) -> None:
    of_host = operator.quarter_of_memory()
    for free, wanted in (
        (None, of_host),
        (400 << 20, min(of_host, 100 << 20)),
        (1 << 60, of_host),
        (0, 16 << 20),
    ):
        monkeypatch.setattr(operator, "free_in_groups", lambda free=free: free)
        assert operator._queued_bytes() == wanted


def test_shards_of_one_folder_stand_in_its_invite_together(tmp_path: Path) -> None:
    async def check(started: Started) -> None:
        del started

    url = "wss://relay.example/relay"
    only = {"only": True, "public_url": url}
    with_network(config(tmp_path, shard=1, **only), check)
    with_network(config(tmp_path, shard=2, **only), check)
    with_network(config(tmp_path, shard=2, **only), check)
    invite = read_invite(tmp_path / "invite.json")
    assert [each.url for each in invite.relays] == [f"{url}/2", f"{url}/1"]
    other = {"only": True, "public_url": "wss://elsewhere.example/relay"}
    with_network(config(tmp_path, shard=3, **other), check)
    invite = read_invite(tmp_path / "invite.json")
    assert [each.url for each in invite.relays] == [
        "wss://elsewhere.example/relay/3"
    ]  # the front's name has changed
