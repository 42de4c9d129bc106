"""Test hosts: network namespaces of this machine, joined by one switch.

    with hosts("relay", "worker", "backbone") as network:
        worker = network["worker"]
        subprocess.Popen(worker.command("p2pmoe", "contribute", ...))
        worker.cut()     # its cable is out: packets vanish, nobody hears a reset
        worker.mend()
        worker.slow(kbit_s=2000)    # what it sends, from now on

Each host has one address, 10.77.0.1 and on, and its own loopback. Needs root and `ip`
of Debian's iproute2; elsewhere the test is skipped with the reason, and with
P2PMOE_REQUIRE_SHARED=1 that is a failure. Everything is gone when the block ends.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

__all__ = ["Host", "hosts", "needs_root_and"]

_NETWORK = "10.77.0"
_NOBODY = "02:00:00:00:00:01"  # no card has this address
_numbers = itertools.count()


def needs_root_and(*programs: str) -> None:
    """Skip the calling test where it lacks root or a program; CI must have both."""
    missing = [program for program in programs if shutil.which(program) is None]
    if os.geteuid() != 0:
        missing.append("root")
    if not missing:
        return
    reason = f"needs {' and '.join(missing)}"
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60)


@dataclass(frozen=True, slots=True)
class Host:
    """One namespace; `address` is how the others reach it."""

    namespace: str
    address: str

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs `words` on this host."""
        return ["ip", "netns", "exec", self.namespace, *words]

    def cut(self) -> None:
        """Pull the cable: packets vanish both ways, connections stay half-open."""
        _run("ip", "-n", self.namespace, "link", "set", "eth0", "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        _run("ip", "-n", self.namespace, "link", "set", "eth0", "up")

    def slow(self, *, kbit_s: int) -> None:
        """Shape what this host sends."""
        words = f"qdisc replace dev eth0 root tbf rate {kbit_s}kbit"
        limits = "burst 32kbit latency 400ms"
        _run("tc", "-n", self.namespace, *words.split(), *limits.split())

    def swallow(self, address: str) -> None:
        """Let what this host sends to `address` vanish without a word."""
        words = f"neigh replace {address} lladdr {_NOBODY} dev eth0 nud permanent"
        _run("ip", "-n", self.namespace, *words.split())


@contextlib.contextmanager
def hosts(*names: str) -> Iterator[dict[str, Host]]:
    """Make hosts on one switch, by name; skips the test where that cannot be."""
    needs_root_and("ip", "tc")
    mark = f"p{os.getpid()}-{next(_numbers)}"
    switch = f"{mark}-switch"
    made: dict[str, Host] = {}
    with contextlib.ExitStack() as namespaces:
        _open(namespaces, switch)
        _run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "br0", "up")
        for number, name in enumerate(names, 1):
            host = Host(f"{mark}-{number}", f"{_NETWORK}.{number}")
            _open(namespaces, host.namespace)
            _join(host, switch, f"port{number}")
            made[name] = host
        yield made


def _open(namespaces: contextlib.ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    namespaces.callback(_run, "ip", "netns", "del", name)
    _run("ip", "-n", name, "link", "set", "lo", "up")


def _join(host: Host, switch: str, port: str) -> None:
    cable = f"link add {port} type veth peer name eth0 netns {host.namespace}"
    _run("ip", "-n", switch, *cable.split())
    _run("ip", "-n", switch, *f"link set {port} master br0 up".split())
    here = f"address add {host.address}/24 dev eth0"
    _run("ip", "-n", host.namespace, *here.split())
    host.mend()
