"""Which proxy leads to a relay, and that its password is never shown."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProxySettingError
from relay.proxies import Proxy, proxy_for

HOST, PORT = "relay.example.org", 443


def chosen(**environment: str) -> Proxy | None:
    return proxy_for(HOST, PORT, environment)


def test_without_variables_there_is_none() -> None:
    assert chosen() is None
    assert chosen(HTTPS_PROXY=" ", HTTP_PROXY="http://proxy:1") is None


@pytest.mark.parametrize(
    ("value", "address", "secure"),
    [
        ("http://proxy.corp:3128", "proxy.corp:3128", False),
        ("proxy.corp:3128", "proxy.corp:3128", False),
        ("http://PROXY.corp/", "proxy.corp:80", False),
        ("https://proxy.corp", "proxy.corp:443", True),
        ("http://10.0.0.1:8080", "10.0.0.1:8080", False),
        ("http://[fd00::1]:8080", "[fd00::1]:8080", False),
    ],
)
def test_forms_of_the_variable(value: str, address: str, secure: bool) -> None:
    proxy = chosen(HTTPS_PROXY=value)
    assert proxy is not None
    assert (proxy.address, proxy.secure) == (address, secure)
    assert (proxy.variable, proxy.authorization) == ("HTTPS_PROXY", "")


def test_which_variable_wins() -> None:
    both = {"HTTPS_PROXY": "http://a:1", "ALL_PROXY": "http://b:2"}
    assert chosen(**both).host == "a"
    assert chosen(ALL_PROXY="http://b:2").variable == "ALL_PROXY"
    assert chosen(https_proxy="http://c:3", **both).host == "c"
    assert chosen(https_proxy="", HTTPS_PROXY="http://a:1") is None


@pytest.mark.parametrize(
    "no_proxy",
    [
        "*",
        "relay.example.org",
        ".example.org",
        "*.example.org",
        "EXAMPLE.ORG",
        "other, example.org:443",
        "a b example.org",
        "org",
    ],
)
def test_no_proxy_names_the_host(no_proxy: str) -> None:
    assert chosen(HTTPS_PROXY="http://a:1", NO_PROXY=no_proxy) is None


@pytest.mark.parametrize(
    "no_proxy",
    ["", ",", "example.com", "lay.example.org", "example.org:8443", ".", "10.0.0.0/8"],
)
def test_no_proxy_names_another(no_proxy: str) -> None:
    assert chosen(HTTPS_PROXY="http://a:1", NO_PROXY=no_proxy) is not None


@pytest.mark.parametrize(
    ("host", "no_proxy", "exempt"),
    [
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3", "2.3", False),
        ("fd00::5", "fd00::/8", True),
        ("fd00::5", "[fd00::5]:443", True),
        ("fd00::5", "[fd00::5]:444", False),
        ("fd00::5", "10.0.0.0/8", False),
        ("relay.example.org.", "example.org", True),
    ],
)
def test_no_proxy_of_addresses(host: str, no_proxy: str, exempt: bool) -> None:
    environment = {"HTTPS_PROXY": "http://a:1", "NO_PROXY": no_proxy}
    assert (proxy_for(host, PORT, environment) is None) == exempt


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "::1"])
def test_this_host_is_reached_directly(host: str) -> None:
    assert proxy_for(host, PORT, {"HTTPS_PROXY": "http://a:1"}) is None
    assert proxy_for(host, PORT, {"HTTPS_PROXY": "nonsense://"}) is None


def test_user_and_password_are_split_off_and_not_shown() -> None:
    proxy = chosen(HTTPS_PROXY="http://ann:p%40ss%3A%2F@proxy:3128")
    kind, _, coded = proxy.authorization.partition(" ")
    assert kind == "Basic"
    assert base64.b64decode(coded) == b"ann:p@ss:/"
    assert proxy.address == "proxy:3128"
    assert "ann" not in repr(proxy)
    assert coded not in repr(proxy)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("http://user:hunter2/x@proxy:1", "cannot be read"),
        ("http://user:1/hunter2@proxy", "follows its port"),
        ("ftp://hunter2:x@proxy", "http://"),
        ("socks5://hunter2:x@proxy:1080", "SOCKS"),
        ("http://", "no host"),
        ("http://hunter2@:80", "no host"),
        ("http://proxy:0", "no port"),
        ("http://proxy:99999", "cannot be read"),
        ("http://pro xy:1", "no host"),
        ("http://prox\u00fc:1", "characters"),
        ("http://pro\nxy:1", "characters"),
        ("http://proxy/?hunter2", "follows its port"),
        ("http://a%3Ahunter2:x@proxy:1", "colon"),
        ("http://[fd00::1", "cannot be read"),
        ("x" * 5000, "too long"),
    ],
)
def test_what_names_no_proxy_is_said_without_quoting_it(value: str, reason) -> None:
    with pytest.raises(ProxySettingError, match=reason) as caught:
        chosen(HTTPS_PROXY=value)
    shown = f"{caught.value} {caught.value.advice} {caught.value.__cause__}"
    assert "hunter2" not in shown
    assert "HTTPS_PROXY" in str(caught.value)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=30))
def test_any_text_is_a_proxy_none_or_one_error(value, no_proxy, host) -> None:
    environment = {"HTTPS_PROXY": value, "NO_PROXY": no_proxy}
    try:
        found = proxy_for(host, PORT, environment)
    except ProxySettingError:
        return
    assert found is None or (0 < found.port < 65_536 and found.host.isascii())
