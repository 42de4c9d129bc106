"""Relay URLs."""

from pathlib import Path

import pytest

from relay.endpoint import Endpoint, is_loopback, parse_endpoint
from relay.errors import EndpointError
from tests.support.relays import RELAY


def test_a_url_with_a_pinned_id() -> None:
    text = f"wss://Relay.Example.org:8443/relay#{RELAY.peer_id.hex()}"
    endpoint = parse_endpoint(text, ca_file=Path("ca.pem"))
    assert endpoint.url == "wss://relay.example.org:8443/relay"
    assert endpoint.relay_id == RELAY.peer_id
    assert endpoint.ca_file == Path("ca.pem")
    assert endpoint.host == "relay.example.org"
    assert endpoint.port == 8443
    assert endpoint.secure
    assert str(endpoint) == text.lower()


def test_what_is_left_out_has_its_usual_value() -> None:
    endpoint = parse_endpoint("wss://relay.example.org")
    assert endpoint.url == "wss://relay.example.org/relay"
    assert endpoint.port == 443
    assert endpoint.relay_id is None
    assert parse_endpoint("ws://127.0.0.1/").port == 80


def test_an_ipv6_address() -> None:
    endpoint = parse_endpoint("wss://[::1]:444/relay/2")
    assert endpoint.host == "::1"
    assert endpoint.address == "[::1]:444"
    assert endpoint.url.endswith("/relay/2")
    assert Endpoint("wss://a:1/relay").address == "a:1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "relay.example.org:443",
        "http://relay.example.org",
        "wss://",
        "wss://ho st/",
        "wss://ho\x07st/",
        "wss://a..b/relay",
        f"wss://{'a' * 64}.example",
        "wss://host:port",
        "wss://host:99999",
        "wss://host:0",
        "wss://user:word@host",
        "wss://host/relay?token=1",
        "wss://host/relay#abcd",
        "wss://[::1",
        f"wss://host/relay#{'00' * 32}",
    ],
)
def test_other_texts_are_refused_with_advice(text: str) -> None:
    with pytest.raises(EndpointError) as caught:
        parse_endpoint(text)
    assert "wss://HOST:PORT" in caught.value.advice


@pytest.mark.parametrize(
    "url",
    [
        "wss://me:secret@host",
        "https://me:secret@host",
        "wss://me:secret@[x/",
        "wss://me:secret/\n1@host",
    ],
)
def test_a_password_in_a_url_is_not_repeated(url: str) -> None:
    with pytest.raises(EndpointError) as caught:
        parse_endpoint(url)
    assert "secret" not in str(caught.value)
    with pytest.raises(EndpointError) as caught:
        parse_endpoint("x" * 10_000)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("example.org", False),
        ("127.0.0.1.example.org", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
