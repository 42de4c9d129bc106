"""Test hosts reach each other, and stop doing so when they are cut."""

import subprocess
import sys

from tests.support.hosts import Host, hosts

LISTEN = """
import socket, sys
with socket.create_server((sys.argv[1], 7000)) as server:
    print("up", flush=True)
    while True:
        server.accept()[0].close()
"""
DIAL = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])).close()
except TimeoutError:
    sys.exit(3)
"""


def dials(host: Host, address: str, timeout_s: float = 5.0) -> int:
    words = host.command(sys.executable, "-c", DIAL, address, str(timeout_s))
    return subprocess.run(words, timeout=20, check=False).returncode


def test_hosts_reach_each_other_until_one_is_cut() -> None:
    with hosts("one", "two") as network:
        one, two = network["one"], network["two"]
        command = one.command(sys.executable, "-c", LISTEN, one.address)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout is not None
                assert server.stdout.readline() == b"up\n"
                assert dials(two, one.address) == 0
                two.slow(kbit_s=512)
                two.slow(kbit_s=2048)
                assert dials(two, one.address) == 0
                one.cut()
                assert dials(two, one.address, 0.3) == 3
                one.mend()
                assert dials(two, one.address) == 0
                two.swallow(one.address)
                assert dials(two, one.address, 0.3) == 3
            finally:
                server.terminate()
