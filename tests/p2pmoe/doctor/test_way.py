"""The way to a relay: each thing that can end it is said by its own check."""

from dataclasses import replace

import pytest
import trio

from p2pmoe.doctor.findings import Finding, Verdict
from p2pmoe.doctor.way import look_at_relay
from relay.client import ClientSettings
from relay.endpoint import Endpoint
from tests.relay.test_dial import authority_files, tls_config_with
from tests.support.proxies import running_proxy
from tests.support.relays import (
    NETWORK,
    PLAINTEXT,
    RELAY,
    key,
    plain_config,
    running_relay,
    tls_config,
    token_for,
    wall_us,
)
from tests.support.trio_test import trio_test

BARE = ClientSettings(environment={})
FAR = Endpoint("wss://relay.example.org/relay", RELAY.peer_id)


async def look(
    endpoint: Endpoint,
    token: bytes = b"",
    *,
    settings: ClientSettings = BARE,
    skew_s: float = 0,
) -> dict[str, Finding]:
    """Look; the findings by their check, of which there is one each."""

    def clock() -> int:
        return wall_us() + int(skew_s * 1e6)

    found = await look_at_relay(endpoint, token, clock, settings)
    by_check = {finding.check: finding for finding in found}
    assert len(by_check) == len(found)
    return by_check


@trio_test
async def test_all_is_well() -> None:
    async with running_relay(tls_config()) as relay:
        found = await look(relay.endpoint("127.0.0.1"))
    assert all(each.verdict is Verdict.OK for each in found.values())
    assert set(found) == {"proxy", "dns", "ipv4", "ipv6", "tls", "relay", "clock"}
    assert "own pinned key" in found["tls"].text


@pytest.mark.parametrize(
    ("skew_s", "verdict", "words"),
    [
        (1, Verdict.OK, "1.0 s ahead"),
        (-20, Verdict.NOTE, "20.0 s behind"),
        (7200, Verdict.WARNING, "7200.0 s ahead"),
    ],
)
def test_b28_the_clock_by_the_relays_word(skew_s, verdict, words) -> None:
    async def main() -> None:
        async with running_relay() as relay:
            settings = replace(PLAINTEXT, environment={})
            endpoint = relay.endpoint("127.0.0.1")
            found = await look(endpoint, settings=settings, skew_s=skew_s)
        assert found["clock"].verdict is verdict
        assert words in found["clock"].text
        assert "tls" not in found

    trio.run(main)


@trio_test
async def test_a_front_with_a_certificate_of_an_authority(tmp_path) -> None:
    files = authority_files(tmp_path)
    async with running_relay(tls_config_with(files)) as relay:
        url = relay.endpoint("localhost").url
        known = Endpoint(url, RELAY.peer_id, files.certificate)
        assert "certificate of front" in (await look(known))["tls"].text
        soon = await look(known, skew_s=63_072_000 * 16)  # in the year 2058
        assert soon["tls"].verdict is Verdict.OK
        unknown = await look(Endpoint(url, RELAY.peer_id))
        assert unknown["tls"].verdict is Verdict.FAULT
        assert "--ca" in unknown["tls"].advice
        assert "relay" not in unknown


@trio_test
async def test_tokens_that_the_relay_does_not_take() -> None:
    config = tls_config(open=False, network=NETWORK.peer_id)
    async with running_relay(config) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        assert (await look(endpoint))["token"].verdict is Verdict.FAULT
        expired = await look(endpoint, token_for(key(1), peer_id=None, not_after_us=1))
        assert "expired" in expired["token"].text
        others = await look(endpoint, token_for(key(1)))
        assert others["relay"].verdict is Verdict.OK
        assert "another peer's" in others["relay"].text
        good = await look(endpoint, token_for(key(1), peer_id=None))
        assert good["relay"].verdict is Verdict.OK


@trio_test
async def test_proxies() -> None:
    async with running_proxy(answer=b"HTTP/1.1 403 No\r\n\r\n") as proxy:
        settings = ClientSettings(environment={"HTTPS_PROXY": proxy.url})
        found = await look_at_relay(FAR, b"", wall_us, settings)
        assert [each.check for each in found] == ["proxy", "proxy"]
        assert "through 127.0.0.1" in found[0].text
        assert "forbids" in found[1].text
        assert "CONNECT" in found[1].advice
    settings = ClientSettings(environment={"HTTPS_PROXY": "socks5://x"})
    [found] = await look_at_relay(FAR, b"", wall_us, settings)
    assert (found.check, found.verdict) == ("proxy", Verdict.FAULT)


@trio_test
async def test_nobody_there_and_no_such_host(monkeypatch) -> None:
    found = await look(Endpoint("wss://127.0.0.1:1/relay"))
    assert found["ipv4"].verdict is Verdict.FAULT
    assert "connection refused" in found["relay"].text
    found = await look(Endpoint(f"wss://{'x' * 70}.example/relay"))
    assert found["dns"].verdict is Verdict.FAULT
    assert "relay" not in found


@trio_test
async def test_plaintext_to_another_host_is_a_fault() -> None:
    async with running_relay(plain_config()) as relay:
        found = await look(relay.endpoint("127.0.0.1"))
    assert "not encrypted" in found["relay"].text
