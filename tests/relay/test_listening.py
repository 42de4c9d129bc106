"""The port, and what forbids it."""

import errno
import socket

import pytest
import trio

from relay.errors import ListenError
from relay.listening import open_listeners, split_address
from tests.support.trio_test import trio_test


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        (":443", None, 443),
        ("127.0.0.1:8443", "127.0.0.1", 8443),
        ("[::1]:0", "::1", 0),
        ("relay.example.org:443", "relay.example.org", 443),
    ],
)
def test_listen_addresses(text: str, host: str | None, port: int) -> None:
    assert split_address(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "443", ":", ":x", ":70000", "::1:443", "a:-1", ":" + "9" * 5000]
)
def test_other_texts_are_refused_with_advice(text: str) -> None:
    with pytest.raises(ListenError) as caught:
        split_address(text)
    assert ":443" in caught.value.advice


@trio_test
async def test_all_addresses_share_one_free_port() -> None:
    listeners = await open_listeners(None, 0)
    ports = {listener.getsockname()[1] for listener in listeners}
    assert len(ports) == 1
    assert ports != {0}
    for listener in listeners:
        listener.close()


@trio_test
async def test_a_port_in_use_is_one_line_with_advice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ListenError) as caught:
            await open_listeners("127.0.0.1", port)
    assert str(caught.value) == f"port {port} on 127.0.0.1 is already in use"
    assert "another port" in caught.value.advice
    assert caught.value.exit_code == 2


@trio_test
async def test_an_address_of_another_host() -> None:
    with pytest.raises(ListenError, match="no address of this host"):
        await open_listeners("192.0.2.1", 0)


@pytest.mark.parametrize("host", ["..", "a" * 70])
def test_a_name_that_is_none(host: str) -> None:
    with pytest.raises(ListenError, match="not known"):
        trio.run(open_listeners, host, 0)


def failing(error: OSError):
    class Socket:
        """A socket that cannot be bound."""

        def setsockopt(self, *_: object) -> None: ...
        def setblocking(self, _: bool) -> None: ...
        def close(self) -> None: ...
        def bind(self, _: object) -> None:
            raise error

    return lambda *_: Socket()


@trio_test
async def test_no_privilege_names_the_ways(monkeypatch) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied")
    monkeypatch.setattr("relay.listening.socket.socket", failing(refused))
    with pytest.raises(ListenError, match="no permission to listen on port 443") as e:
        await open_listeners("127.0.0.1", 443)
    for way in ("CAP_NET_BIND_SERVICE", "authbind", "front"):
        assert way in e.value.advice


@trio_test
async def test_a_host_without_any_of_the_protocols(monkeypatch) -> None:
    absent = OSError(errno.EAFNOSUPPORT, "not supported")
    monkeypatch.setattr("relay.listening.socket.socket", failing(absent))
    with pytest.raises(ListenError, match="cannot listen on port 443"):
        await open_listeners(None, 443)
