"""Port 443, the default, on a host of its own: with the privilege, given, and without.

In a namespace of its own no other program has the port, and the kernel asks for the
privilege whatever this machine allows.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.hosts import Host, hosts, needs_root_and

pytestmark = pytest.mark.slow

# Root without its one capability; and nothing but this one, as systemd's
# AmbientCapabilities=CAP_NET_BIND_SERVICE gives it to a service.
WITHOUT = ("setpriv", "--bounding-set", "-net_bind_service")
GIVEN = (
    *("setpriv", "--securebits", "+noroot,+noroot_locked"),
    *("--inh-caps", "-all,+net_bind_service"),
    *("--ambient-caps", "-all,+net_bind_service"),
)
# --listen is left out: :443 is what it is then.
RELAY = "relay --open --only --self-signed --data"
PROBE = """
import socket
from relay.tls import pinning_context
with socket.create_connection(("127.0.0.1", 443), timeout=20) as plain:
    with pinning_context().wrap_socket(plain) as secure:
        secure.sendall(b"GET /livez HTTP/1.1\\r\\nHost: here\\r\\n\\r\\n")
        print(secure.recv(100).split(b"\\r\\n")[0].decode())
"""


def relay_words(folder: Path, *more: str) -> list[str]:
    program = [sys.executable, "-c", "from p2pmoe.cli.main import main; main()"]
    return [*program, *RELAY.split(), str(folder), *more]


def answer_of(host: Host) -> str:
    """Ask the relay on this host whether it lives."""
    done = subprocess.run(
        host.command(sys.executable, "-c", PROBE),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize("privilege", [(), GIVEN], ids=["root", "given"])
def test_the_default_port_is_bound_with_the_privilege(
    tmp_path: Path, privilege: tuple[str, ...]
) -> None:
    needs_root_and("setpriv")
    ready, log = tmp_path / "ready", tmp_path / "log"
    with hosts("relay") as network, log.open("wb") as sink:
        host = network["relay"]
        words = [*privilege, *relay_words(tmp_path, "--ready-file", str(ready))]
        with subprocess.Popen(host.command(*words), stderr=sink) as process:
            try:
                until = time.monotonic() + 60
                while not ready.exists():
                    assert process.poll() is None, log.read_text()
                    assert time.monotonic() < until, log.read_text()
                    time.sleep(0.02)
                assert ":443/relay#" in json.loads(ready.read_text())["relay"]
                assert answer_of(host) == "HTTP/1.1 200 OK"
            finally:
                process.terminate()
        assert process.returncode == 0, log.read_text()


def test_without_the_privilege_one_line_names_the_ways(tmp_path: Path) -> None:
    needs_root_and("setpriv")
    with hosts("relay") as network:
        done = subprocess.run(
            network["relay"].command(*WITHOUT, *relay_words(tmp_path)),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    [line] = [row for row in done.stderr.splitlines() if row.startswith("error:")]
    assert line.startswith("error: no permission to listen on port 443")
    for way in ("CAP_NET_BIND_SERVICE", "authbind", "front"):
        assert way in line
    assert "Traceback" not in done.stderr
