"""How a relay's host is found, and which kind of address answers."""

import socket

import pytest
import trio

from p2pmoe.doctor.findings import Verdict
from p2pmoe.doctor.names import Addresses, families, lookup
from relay.endpoint import Endpoint
from tests.support.trio_test import trio_test

AT = Endpoint("wss://relay.test:444/relay")


class Names(trio.abc.HostnameResolver):
    """A resolver that says what a test tells it to, after so many seconds."""

    def __init__(self, answer: object, after_s: float = 0.0) -> None:
        self.answer = answer
        self.after_s = after_s

    async def getaddrinfo(self, host, port, *_: object, **__: object):
        await trio.sleep(self.after_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        tcp = (socket.SOCK_STREAM, 6, "")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, *tcp, (each, port))
            for each in self.answer
        ]

    async def getnameinfo(self, *_: object):
        raise NotImplementedError


@trio_test
async def test_addresses_of_both_kinds() -> None:
    trio.socket.set_custom_hostname_resolver(
        Names(["2001:db8::1", "192.0.2.1", "192.0.2.1"])
    )
    found, addresses = await lookup(AT)
    assert found.verdict is Verdict.OK
    assert found.text == "relay.test is 192.0.2.1, 2001:db8::1"
    assert addresses == Addresses(ipv4=("192.0.2.1",), ipv6=("2001:db8::1",))


@trio_test(autojump=True)
async def test_names_that_are_not_known_slow_or_never_answered() -> None:
    for names, verdict, words in (
        (Names(socket.gaierror(-2, "unknown")), Verdict.FAULT, "not known"),
        (Names(UnicodeError("label too long")), Verdict.FAULT, "not known"),
        (Names(["192.0.2.1"], after_s=3), Verdict.WARNING, "took 3.0 s"),
        (Names(["192.0.2.1"], after_s=100), Verdict.FAULT, "no answer"),
    ):
        trio.socket.set_custom_hostname_resolver(names)
        began = trio.current_time()
        found, _ = await lookup(AT)
        assert found.verdict is verdict
        assert words in found.text
        assert "name server" in found.advice
        assert trio.current_time() - began <= 5.1


@pytest.fixture
def reachable(monkeypatch) -> set[str]:
    """Addresses that take connections; all others swallow them."""
    answering: set[str] = set()

    async def connect(address: str, _port: int) -> trio.SocketStream:
        if address not in answering:
            await trio.sleep_forever()
        here, there = socket.socketpair()
        there.close()
        return trio.SocketStream(trio.socket.from_stdlib_socket(here))

    monkeypatch.setattr("p2pmoe.doctor.names.trio.open_tcp_stream", connect)
    return answering


BOTH = Addresses(ipv4=("192.0.2.1", "192.0.2.2"), ipv6=("2001:db8::1",))
OK, WARNING, FAULT = Verdict.OK, Verdict.WARNING, Verdict.FAULT


@pytest.mark.parametrize(
    ("answering", "has", "verdicts"),
    [
        ({"192.0.2.1", "2001:db8::1"}, BOTH, (OK, OK)),
        ({"192.0.2.2"}, BOTH, (OK, WARNING)),
        ({"2001:db8::1"}, BOTH, (WARNING, OK)),
        (set(), BOTH, (FAULT, FAULT)),
        ({"192.0.2.1"}, Addresses(ipv4=("192.0.2.1",)), (OK, OK)),
    ],
)
def test_b26_each_kind_is_tried_by_itself(reachable, answering, has, verdicts) -> None:
    reachable |= answering

    @trio_test(autojump=True)
    async def main() -> None:
        found = await families(AT, has)
        assert tuple(each.verdict for each in found) == verdicts
        assert [each.check for each in found] == ["ipv4", "ipv6"]
        assert trio.current_time() <= 3.1
        for each in found:
            assert bool(each.advice) == (each.verdict is not OK)

    main()


@trio_test
async def test_a_refused_connection_is_no_answer() -> None:
    at = Endpoint("wss://127.0.0.1:1/relay")
    ipv4, _ = await families(at, Addresses(ipv4=("127.0.0.1",)))
    assert ipv4.verdict is Verdict.FAULT
