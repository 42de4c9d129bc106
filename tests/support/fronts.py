"""nginx and Caddy before a relay, from the configurations that the how-to has.

    changes = {"127.0.0.1:8443": f"127.0.0.1:{relay.port}"}
    with front("nginx.conf", changes) as running:
        running.endpoint(relay_id)  # wss://localhost:PORT/relay, its authority known
        running.reload()

The file is used as it is written, but for what is this machine's: ports, certificate,
and what `changes` says. A text that is to be replaced and is not there is a failure, so
that the file and the test cannot part.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from relay.endpoint import Endpoint
from relay.keys import PeerId
from relay.tls import TlsFiles
from tests.relay.test_dial import authority_files
from tests.support.hosts import needs_root_and
from tests.support.ports import reserved_port

__all__ = ["FRONTS", "Front", "front", "has_close_delay"]

FRONTS = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "fronts"
_WITHIN_S = 30.0
_POLL_S = 0.02
_NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/log;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site;
}}
"""
_CADDY = """\
{{
	admin unix//{folder}/admin
	auto_https off
}}
"""


@dataclass(slots=True, kw_only=True)
class Front:
    """A front that runs; `files` are its certificate, whose authority is itself."""

    program: str
    folder: Path
    port: int
    plain_port: int
    files: TlsFiles
    process: subprocess.Popen[bytes]

    def endpoint(self, relay_id: PeerId, path: str = "/relay") -> Endpoint:
        """Return where peers reach a relay through it."""
        url = f"wss://localhost:{self.port}{path}"
        return Endpoint(url, relay_id, self.files.certificate)

    def renew_certificate(self) -> None:
        """Put another certificate in its place; used from the next reload on."""
        authority_files(self.folder)

    def reload(self) -> None:
        """Have it read its configuration again; nginx goes on to do it by itself."""
        if self.program == "nginx":
            self.process.send_signal(signal.SIGHUP)
            return
        words = ["caddy", "reload", "--force", "--adapter", "caddyfile"]
        address = f"unix//{self.folder}/admin"
        subprocess.run(
            [*words, "--config", str(self.folder / "site"), "--address", address],
            check=True,
            capture_output=True,
            timeout=_WITHIN_S,
        )


def has_close_delay() -> bool:
    """Tell whether this Caddy keeps open connections over a reload: 2.7 and later."""
    done = subprocess.run(
        ["caddy", "version"], capture_output=True, text=True, timeout=20, check=True
    )
    major, minor, *_ = done.stdout.lstrip("v").split(" ")[0].split(".")
    return (int(major), int(minor)) >= (2, 7)


@contextlib.contextmanager
def front(name: str, changes: Mapping[str, str]) -> Iterator[Front]:
    """Run the front of this file while the block runs; its log is shown if it fails."""
    program = "nginx" if name.startswith("nginx") else "caddy"
    needs_root_and(program)
    with contextlib.ExitStack() as opened:
        # Not pytest's folder: the path of a Unix socket is short, and workers that are
        # not root look into this one.
        folder = Path(tempfile.mkdtemp(prefix="p2pmoe-front-"))
        opened.callback(shutil.rmtree, folder)
        folder.chmod(0o755)
        files = authority_files(folder)
        port, plain_port = (opened.enter_context(reserved_port()) for _ in range(2))
        text = _replaced((FRONTS / name).read_text(encoding="utf-8"), changes)
        write = _write_nginx if program == "nginx" else _write_caddy
        command = write(folder, text, files, (port, plain_port))
        process = opened.enter_context(_running(command, folder))
        _wait_for_port(process, port, folder)
        yield Front(
            program=program,
            folder=folder,
            port=port,
            plain_port=plain_port,
            files=files,
            process=process,
        )


def _write_nginx(
    folder: Path, text: str, files: TlsFiles, ports: tuple[int, int]
) -> list[str]:
    port, plain_port = ports
    changes = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "listen [::]:443 ssl;": f"listen [::1]:{port} ssl;" if _has_ipv6() else "",
        "listen 80;": f"listen 127.0.0.1:{plain_port};",
        "listen [::]:80;": "",
        "/etc/letsencrypt/live/relay.example/fullchain.pem": str(files.certificate),
        "/etc/letsencrypt/live/relay.example/privkey.pem": str(files.key),
        "server_name relay.example;": "server_name localhost;",
    }
    (folder / "site").write_text(_replaced(text, changes), encoding="utf-8")
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder), encoding="utf-8")
    return ["nginx", "-p", str(folder), "-c", str(config), "-e", f"{folder}/log"]


def _write_caddy(
    folder: Path, text: str, files: TlsFiles, ports: tuple[int, int]
) -> list[str]:
    tls = f"tls {files.certificate} {files.key}"
    changes = {"\nrelay.example {\n": f"\nhttps://localhost:{ports[0]} {{\n\t{tls}\n"}
    if has_close_delay():
        changes["#stream_close_delay"] = "stream_close_delay"
    site = folder / "site"
    site.write_text(_CADDY.format(folder=folder) + _replaced(text, changes), "utf-8")
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(site)]


def _replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, f"the front's configuration has no {old!r}"
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    home = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | home,
        )
    try:
        yield process
    finally:
        if command[0] == "nginx":
            process.terminate()  # at once, and its workers with it
        else:
            process.kill()  # asked politely, Caddy waits for its connections to end
        process.wait(_WITHIN_S)


def _wait_for_port(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError((folder / "output").read_text())
        time.sleep(_POLL_S)


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True
