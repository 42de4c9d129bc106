"""Two hosts on one switch find each other by multicast and speak directly."""

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.hosts import Host, hosts

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def started(stack: ExitStack, host: Host, *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        host.command(sys.executable, "-m", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    stack.enter_context(process)  # waits for it
    stack.callback(process.stdin.close)  # which ends it
    return process


def test_peers_that_know_no_address_find_each_other() -> None:
    with hosts("relay", "one", "other") as network, ExitStack() as stack:
        at = f"{network['relay'].address}:7433"
        relay = started(stack, network["relay"], "tests.support.lan_relay", at)
        url = relay.stdout.readline().strip()
        node = "tests.support.lan_node"
        one = started(stack, network["one"], node, "1", "2", url)
        other = started(stack, network["other"], node, "2", "1", url)
        for process in (one, other):
            # No address is in its record: none was told by the relay.
            assert process.stdout.readline().strip() == "direct"
