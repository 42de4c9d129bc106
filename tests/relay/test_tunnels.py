"""CONNECT through an HTTP proxy, and each refusal as its own line (faults B26)."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from relay.endpoint import Endpoint
from relay.errors import EndpointError, ProtocolError, ProxyRefused
from relay.proxies import Proxy
from relay.tunnels import (
    ConnectAnswer,
    connect_request,
    open_tunnel,
    parse_answer,
    refusal_of,
)
from tests.support.trio_test import trio_test

RELAY_AT = Endpoint("wss://relay.example.org/relay")
PROXY = Proxy(host="proxy", port=3128, secure=False, variable="HTTPS_PROXY")
KNOWN = Proxy(
    host="proxy",
    port=3128,
    secure=False,
    variable="ALL_PROXY",
    authorization="Basic aHVudGVyMg==",
)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("wss://relay.example.org/relay", "relay.example.org:443"),
        ("wss://[fd00::1]:8443/relay", "[fd00::1]:8443"),
        ("wss://b\u00fccher.example/relay", "xn--bcher-kva.example:443"),
    ],
)
def test_the_request(url: str, address: str) -> None:
    wanted = f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n"
    assert connect_request(PROXY, Endpoint(url)) == wanted.encode()


def test_the_request_with_a_password() -> None:
    request = connect_request(KNOWN, RELAY_AT)
    assert b"\r\nProxy-Authorization: Basic aHVudGVyMg==\r\n" in request


def test_a_host_that_cannot_be_written() -> None:
    with pytest.raises(EndpointError):
        connect_request(PROXY, Endpoint(f"wss://{'x' * 64}.example/relay"))


@pytest.mark.parametrize(
    ("head", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", ConnectAnswer(status=200)),
        (b"HTTP/1.0 200\r\nVia: x\r\n\r\n", ConnectAnswer(status=200)),
        (b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno", ConnectAnswer(status=403)),
        (
            b"HTTP/1.1 407 Who?\r\nProxy-Authenticate: Negotiate\r\n"
            b"Proxy-Authenticate: NTLM x\r\nproxy-authenticate:Basic realm=y\r\n\r\n",
            ConnectAnswer(status=407, schemes=("negotiate", "ntlm", "basic")),
        ),
    ],
)
def test_answers(head: bytes, answer: ConnectAnswer) -> None:
    assert parse_answer(head) == answer
    end = head.index(b"\r\n\r\n")
    assert all(parse_answer(head[:n]) is None for n in range(end + 3))


@pytest.mark.parametrize(
    "head",
    [
        b"220 mail.example.org ESMTP\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 twohundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nearly",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 3000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
    ],
)
def test_what_is_no_answer(head: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_answer(head)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_an_answer_nothing_yet_or_one_error(raw, begins) -> None:
    try:
        answer = parse_answer(b"HTTP/1.1 " + raw if begins else raw)
    except ProtocolError:
        return
    assert answer is None or 100 <= answer.status <= 999


@pytest.mark.parametrize(
    ("proxy", "answer", "message", "advice"),
    [
        (PROXY, ConnectAnswer(status=407), "wants a user and password", "HTTPS_PROXY"),
        (KNOWN, ConnectAnswer(status=407), "does not take the user", "ALL_PROXY"),
        (
            PROXY,
            ConnectAnswer(status=407, schemes=("negotiate", "ntlm")),
            "wants negotiate or ntlm authentication",
            "cntlm",
        ),
        (PROXY, ConnectAnswer(status=403), "forbids", "allow CONNECT"),
        (PROXY, ConnectAnswer(status=405), "does not do CONNECT", "HTTPS_PROXY"),
        (PROXY, ConnectAnswer(status=502), "does not reach", "NO_PROXY"),
        (PROXY, ConnectAnswer(status=302), "does not open", "NO_PROXY"),
    ],
)
def test_b26_each_refusal_names_the_setting_to_change(
    proxy: Proxy, answer: ConnectAnswer, message: str, advice: str
) -> None:
    error = refusal_of(proxy, RELAY_AT, answer)
    assert message in str(error)
    assert f"HTTP {answer.status}" in str(error)
    assert "proxy:3128" in str(error)
    assert advice in error.advice
    assert error.status == answer.status
    assert "aHVudGVyMg" not in f"{error} {error.advice}"


def test_b26_refusals_differ() -> None:
    lines = {
        str(refusal_of(PROXY, RELAY_AT, ConnectAnswer(status=status))).split(" (")[0]
        for status in (407, 403, 405, 502, 302)
    }
    assert len(lines) == 5


async def tunnel_error(answer: bytes) -> ProxyRefused:
    here, there = trio.testing.memory_stream_pair()
    if answer:
        await there.send_all(answer)
    await there.send_eof()
    with pytest.raises(ProxyRefused) as caught:
        await open_tunnel(here, PROXY, RELAY_AT)
    return caught.value


@trio_test
async def test_a_tunnel_that_opens_leaves_the_stream_as_it_is() -> None:
    here, there = trio.testing.memory_stream_pair()
    await there.send_all(b"HTTP/1.1 200 OK\r\n\r\n")
    await open_tunnel(here, PROXY, RELAY_AT)
    await here.send_all(b"hello")
    assert await there.receive_some() == connect_request(PROXY, RELAY_AT) + b"hello"


@trio_test
async def test_proxies_that_hang_up_or_speak_otherwise() -> None:
    assert "ends before" in str(await tunnel_error(b""))
    assert "not http" in str(await tunnel_error(b"SSH-2.0-x\r\n"))
    refused = await tunnel_error(b"HTTP/1.1 407 Who\r\n\r\n")
    assert refused.status == 407


@trio_test(autojump=True)
async def test_a_silent_proxy_is_given_five_seconds() -> None:
    here, _there = trio.testing.memory_stream_pair()
    began = trio.current_time()
    with pytest.raises(ProxyRefused, match="in time"):
        await open_tunnel(here, PROXY, RELAY_AT)
    assert trio.current_time() - began == pytest.approx(5)
