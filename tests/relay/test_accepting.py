"""Connections are counted, refused early, and end one by one."""

import pytest
import trio
import trio.testing

from relay import accepting
from relay.errors import RelayUnreachable
from relay.gate import GateLimits, Origin
from tests.support.relays import joined, key, plain_config, running_relay
from tests.support.trio_test import trio_test

SCARCE = {"per_address_burst": 1, "per_address_s": 1e-6}


@pytest.fixture
def afar(monkeypatch) -> None:
    """Let loopback count as any other address."""
    monkeypatch.setattr(accepting, "origin_of", lambda *_, **__: Origin.PEER)


@pytest.mark.usefixtures("afar")
def test_above_its_rate_an_address_is_closed_or_asked_for_a_ticket() -> None:
    @trio_test
    async def main() -> None:
        async with running_relay(plain_config(gate=GateLimits(**SCARCE))) as relay:
            async with joined(relay, key(1)) as first:
                ticket = first.welcome.ticket
            with pytest.raises(RelayUnreachable, match="HTTP 429"):
                async with joined(relay, key(1)):
                    pass
            async with joined(relay, key(1), ticket=ticket):
                pass
        assert relay.counters.refused == {"no ticket": 1}
        config = plain_config(gate=GateLimits(**SCARCE, lane_open=0))
        async with running_relay(config) as relay:
            async with joined(relay, key(1)):
                with pytest.raises(RelayUnreachable):
                    async with joined(relay, key(1), ticket=ticket):
                        pass
        assert relay.counters.refused == {"address rate": 1}

    main()


@trio_test
async def test_a_fault_of_ours_ends_one_connection() -> None:
    async def broken(_request):
        raise RuntimeError("a bug")

    async with running_relay(pages={"/broken": broken}) as relay:
        stream = await trio.open_tcp_stream("127.0.0.1", relay.port)
        await stream.send_all(b"GET /broken HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await stream.receive_some() == b""
        await stream.aclose()
        async with joined(relay, key(1)):
            pass
    assert relay.counters.refused == {"internal error": 1}


@pytest.mark.parametrize("is_long", [True, False])
def test_of_many_addresses_the_oldest_gives_way_if_it_took_long(
    is_long: bool, monkeypatch
) -> None:
    addresses = iter([f"192.0.2.{number}" for number in range(4)])
    monkeypatch.setattr(accepting, "origin_of", lambda *_, **__: Origin.PEER)
    monkeypatch.setattr(accepting, "remote_of", lambda _: next(addresses))
    monkeypatch.setattr(accepting, "_LONG_S", 0.0 if is_long else 1e9)

    @trio_test
    async def main() -> None:
        async with running_relay(plain_config(max_handshakes=3)) as relay:
            silent = [
                await trio.open_tcp_stream("127.0.0.1", relay.port) for _ in range(3)
            ]
            await trio.testing.wait_all_tasks_blocked(0.01)
            if is_long:
                async with joined(relay, key(1)):
                    assert await silent[0].receive_some() == b""
            else:
                with pytest.raises(RelayUnreachable):
                    async with joined(relay, key(1)):
                        pass
            cause = "crowded out" if is_long else "handshakes"
            assert relay.counters.refused[cause] == 1
            for stream in silent:
                await stream.aclose()

    main()


def test_one_address_that_dawdles_does_not_keep_others_out(monkeypatch) -> None:
    addresses = iter(["192.0.2.1"] * 3 + ["192.0.2.2"])
    monkeypatch.setattr(accepting, "origin_of", lambda *_, **__: Origin.PEER)
    monkeypatch.setattr(accepting, "remote_of", lambda _: next(addresses))

    @trio_test
    async def main() -> None:
        async with running_relay(plain_config(max_handshakes=3)) as relay:
            silent = [
                await trio.open_tcp_stream("127.0.0.1", relay.port) for _ in range(3)
            ]
            await trio.testing.wait_all_tasks_blocked(0.01)
            async with joined(relay, key(1)):
                assert await silent[0].receive_some() == b""  # the oldest gave way
            assert relay.counters.refused["crowded out"] == 1
            for stream in silent:
                await stream.aclose()

    main()
