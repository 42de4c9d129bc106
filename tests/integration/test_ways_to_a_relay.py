"""Ways to a relay through networks that are not kind (faults B26), on several hosts.

A name whose IPv6 address swallows everything; and a network that lets nothing out but
its HTTP proxy, which wants a password.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts import Host, hosts, needs_root_and

pytestmark = pytest.mark.slow

NAME, PORT = "relay.test", 8443
NO_PROXIES = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
URL = f"wss://{NAME}:{PORT}/relay"
PROGRAM = (sys.executable, "-c", "from p2pmoe.cli.main import main; main()")
RELAY = f"relay --only --self-signed --listen :{PORT} --public-url {URL} --data"
DEAD_IPV6 = "2001:db8::1"


@contextlib.contextmanager
def named(host: Host, *addresses: str) -> Iterator[None]:
    """Let the relay's name have these addresses on this host."""
    file = Path("/etc/netns", host.namespace, "hosts")
    file.parent.mkdir(parents=True)
    try:
        file.write_text("".join(f"{address} {NAME}\n" for address in addresses))
        yield
    finally:
        file.unlink()
        file.parent.rmdir()


@contextlib.contextmanager
def program(host: Host, *words: str, ready: Path | None = None) -> Iterator[Any]:
    """Run a program there once it is up; what its ready file says."""
    command = host.command(*words)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            if ready is None:
                assert process.stdout is not None
                assert process.stdout.readline() == b"up\n"
                yield None
                return
            until = time.monotonic() + 120
            while not ready.exists():
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            yield json.loads(ready.read_text())
        finally:
            process.terminate()


def relay_on(host: Host, folder: Path) -> contextlib.AbstractContextManager[Any]:
    ready = folder / "ready"
    words = [*PROGRAM, *RELAY.split(), str(folder), "--ready-file", str(ready)]
    return program(host, *words, ready=ready)


def ask(
    host: Host, command: str, invite: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of p2pmoe there as a member."""
    words = (*PROGRAM, *command.split(), "--invite", invite)
    return subprocess.run(
        host.command(*words),
        env={**NO_PROXIES, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


PROBE = "relay probe --frames 20 --rate 1000 --json"


def test_b26_a_dead_ipv6_address_is_passed_over_and_named(tmp_path: Path) -> None:
    needs_root_and("ip")
    with hosts("relay", "peer") as network:
        relay, peer = network["relay"], network["peer"]
        words = f"ip -n {peer.namespace} address add 2001:db8::2/64 dev eth0 nodad"
        subprocess.run(words.split(), check=True, timeout=20)
        peer.swallow(DEAD_IPV6)
        with (
            named(peer, DEAD_IPV6, relay.address),
            named(relay, relay.address),
            relay_on(relay, tmp_path) as report,
        ):
            probed = ask(peer, PROBE, report["invite"])
            assert probed.returncode == 0, probed.stderr
            [found] = json.loads(probed.stdout)["relays"]
            assert found["remote"] == f"{relay.address}:{PORT}"
            # A quarter of a second for IPv6: tests/relay/test_dial.py has it exactly;
            # the rest is room for a busy machine, far from a time-out of TCP.
            assert 250 <= found["tcp_ms"] < 5000
            looked = ask(peer, "doctor --json", report["invite"])
            assert looked.returncode == 0, looked.stderr
            findings = json.loads(looked.stdout)["findings"]
            by_check = {each["check"]: each for each in findings}
            assert by_check["ipv6"]["verdict"] == "warning"
            assert "IPv6 route" in by_check["ipv6"]["advice"]
            assert by_check["relay"]["verdict"] == "ok"


def test_b26_a_network_that_lets_out_its_proxy_alone(tmp_path: Path) -> None:
    needs_root_and("ip")
    with hosts("relay", "proxy", "peer") as network:
        relay, proxy, peer = (network[name] for name in ("relay", "proxy", "peer"))
        peer.swallow(relay.address)
        module = (sys.executable, "-m", "tests.support.proxies")
        with (
            named(relay, relay.address),
            named(proxy, relay.address),
            named(peer, "192.0.2.1"),  # never asked: the proxy looks the name up
            relay_on(relay, tmp_path) as report,
            program(proxy, *module, proxy.address, "3128", "ann:p@ss"),
        ):
            at = f"{proxy.address}:3128"
            invite = report["invite"]
            asked = ask(peer, PROBE, invite, HTTPS_PROXY=f"http://{at}")
            assert asked.returncode == 2
            assert f"proxy {at} wants a user and password (HTTP 407)" in asked.stderr
            assert f"HTTPS_PROXY to http://USER:PASSWORD@{at}" in asked.stderr
            wrong = ask(peer, PROBE, invite, HTTPS_PROXY=f"http://ann:pass@{at}")
            assert "does not take the user and password" in wrong.stderr
            assert "ann" not in wrong.stderr
            for refused in (asked, wrong):
                assert len(refused.stderr.splitlines()) == 1
            right = ask(peer, PROBE, invite, HTTPS_PROXY=f"http://ann:p%40ss@{at}")
            assert right.returncode == 0, right.stderr
            [found] = json.loads(right.stdout)["relays"]
            assert found["proxy"] == at
            assert found["n_back"] == 20
