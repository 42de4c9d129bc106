"""Searching the local network, with a zeroconf that is played.

Two real hosts that find each other are in tests/integration/test_lan_hosts.py.
"""

import sys
import types

import pytest
import trio

from mobile_worker.errors import LanUnavailable
from mobile_worker.links import lan
from mobile_worker.links.discovery import Found, lan_name
from mobile_worker.links.lan import Announced, announcement, check_lan, search_lan
from relay.keys import PeerId
from tests.support.nodes import until
from tests.support.trio_test import trio_test

PEER = PeerId(b"1" * 32)
NAME = lan_name(bytes(32), PEER)
OWN = Announced(lan_name(bytes(32), PeerId(b"2" * 32)), ("10.0.0.1",), 7400)
SERVICE = "_p2pmoe._tcp.local."


class Info:
    """What an announcement says."""

    def __init__(self, _service: str, name: str, **values: object) -> None:
        self.name = name
        self.values = values
        self.hosts = ["10.0.0.2"]
        self.port = 7400

    def parsed_addresses(self) -> list[str]:
        return self.hosts


class Network:
    """A module named zeroconf, and what happened to it."""

    def __init__(self) -> None:
        self.infos: dict[str, Info] = {}
        self.registered: list[Info] = []
        self.n_closed = 0
        self.tell = None
        self.error: Exception | None = None
        network = self

        class Zeroconf:
            def __init__(self, **_: object) -> None:
                if network.error is not None:
                    raise network.error

            def register_service(self, info: Info) -> None:
                network.registered.append(info)

            def get_service_info(self, service: str, name: str, _ms: int) -> Info:
                assert service == SERVICE
                return network.infos.get(name)

            def close(self) -> None:
                network.n_closed += 1

        def browser(zeroconf: Zeroconf, service: str, handlers: list) -> None:
            def tell(name: str, change: str) -> None:
                state = types.SimpleNamespace(name=change)
                handlers[0](zeroconf, service, f"{name}.{SERVICE}", state)

            network.tell = tell

        self.module = types.SimpleNamespace(
            Zeroconf=Zeroconf,
            ServiceBrowser=browser,
            ServiceInfo=Info,
            IPVersion=types.SimpleNamespace(V4Only=4),
            Error=ZeroDivisionError,
        )


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    played = Network()
    monkeypatch.setitem(sys.modules, "zeroconf", played.module)
    adapters = types.SimpleNamespace(get_adapters=list)
    monkeypatch.setitem(sys.modules, "ifaddr", adapters)
    return played


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeroconf", None)
    with pytest.raises(LanUnavailable, match="zeroconf"):
        check_lan()


@trio_test
async def test_found_peers_come_over_and_own_is_announced(network: Network) -> None:
    heard: list[Found] = []
    came = trio.Event()

    def heed(found: Found) -> None:
        heard.append(found)
        came.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(search_lan, OWN, heed)
        await until(lambda: network.registered)
        for change in ("Added", "Updated", "Removed"):
            came = trio.Event()
            network.infos[f"{NAME}.{SERVICE}"] = Info(SERVICE, NAME)
            await trio.to_thread.run_sync(network.tell, NAME, change)
            with trio.fail_after(10):
                await came.wait()
        await trio.to_thread.run_sync(network.tell, "not a name of ours", "Added")
        nursery.cancel_scope.cancel()
    there = Found(NAME, ("10.0.0.2:7400",))
    assert heard == [there, there, Found(NAME, ())]
    assert network.registered[0].values["port"] == 7400
    assert network.registered[0].values["addresses"] == [b"\x0a\0\0\1"]
    assert network.n_closed == 1


@trio_test
async def test_a_flood_is_handed_over_once_a_name(network: Network) -> None:
    heard: list[Found] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(search_lan, None, heard.append)
        await until(lambda: network.tell)
        for _ in range(100):  # this thread is busy: nothing is handed over meanwhile
            for name in range(30):
                network.tell(f"{name:032x}", "Removed")
        await until(lambda: heard)
        nursery.cancel_scope.cancel()
    assert len(heard) == 30
    assert network.registered == []


@pytest.mark.parametrize(
    "name",
    [
        f"bad\x01name.{SERVICE}",
        "0" * 32,
        f"{'0' * 32}._other._tcp.local.",
        f"{'a' * 64}.{SERVICE}",
        f".{SERVICE}",
        SERVICE,
        "",
    ],
)
def test_names_that_are_none_of_ours_are_not_asked_for(name: str) -> None:
    search = lan._Search(lambda _found: None, types.SimpleNamespace())
    for change in ("Added", "Removed"):
        state = types.SimpleNamespace(name=change)
        search._changed(None, SERVICE, name, state)
    assert search._pending == {}


def test_names_that_say_nothing_keep_others_waiting_for_two_seconds_in_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, asked_ms = [100.0], []

    def ask(_service: str, _name: str, ms: int) -> None:
        asked_ms.append(ms)
        now[0] += ms / 1000

    monkeypatch.setattr(lan.time, "monotonic", lambda: now[0])
    search = lan._Search(lambda _found: None, types.SimpleNamespace())
    zeroconf = types.SimpleNamespace(get_service_info=ask)
    state = types.SimpleNamespace(name="Added")
    for number in range(100):
        search._changed(zeroconf, SERVICE, f"{number:032x}.{SERVICE}", state)
    assert asked_ms[0] == 2000
    assert sum(asked_ms) < 2500
    now[0] += 60.0
    search._changed(zeroconf, SERVICE, f"{1:032x}.{SERVICE}", state)
    assert asked_ms[-1] == 2000


def test_no_more_than_1024_names_wait() -> None:
    token = types.SimpleNamespace(run_sync_soon=lambda *_, **__: None)
    search = lan._Search(lambda _found: None, token)
    gone = types.SimpleNamespace(name="Removed")
    for name in range(3000):
        search._changed(None, SERVICE, f"{name:032x}.{SERVICE}", gone)
    assert len(search._pending) == 1024


@pytest.mark.parametrize("error", [OSError("No such device"), ZeroDivisionError("odd")])
@trio_test
async def test_what_fails_is_one_line_and_ends_nothing(
    network: Network, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    network.error = error
    with trio.fail_after(10):
        await search_lan(OWN, lambda _found: None)
    [record] = caplog.records
    assert "the local network is not searched" in record.getMessage()


@trio_test
async def test_where_a_peer_listens_is_what_it_announces() -> None:
    assert announcement(bytes(32), PEER, []) is None
    [everywhere] = await trio.open_tcp_listeners(0, host="0.0.0.0")  # noqa: S104
    [here] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with everywhere, here:
        found = announcement(bytes(32), PEER, [everywhere])
        assert found is not None
        assert (found.name, found.hosts) == (NAME, ())
        assert found.port == everywhere.socket.getsockname()[1]
        found = announcement(bytes(32), PEER, [here])
        assert found is not None
        assert found.hosts == ("127.0.0.1",)
