"""A relay that fetches its certificate, from the command line to a member's TLS."""

import socket
import ssl
from pathlib import Path

from p2pmoe.network.acme.renewal import read_certificate_file
from p2pmoe.network.invite import read_invite
from relay.tls import pinning_context
from tests.support.acme_server import acme_server
from tests.support.operator_processes import OperatorProcess, run_operator_command
from tests.support.ports import reserved_port


def test_a_relay_comes_up_with_a_certificate_of_its_name(tmp_path: Path) -> None:
    with (
        reserved_port() as port,
        acme_server(tmp_path, validation_port=port) as authority,
    ):
        options = (
            *("--acme", "Relay.Example", "--acme-listen", f"127.0.0.1:{port}"),
            *("--acme-server", f"{authority.url}/directory"),
            *("--acme-ca", str(authority.ca_file), "--listen", "127.0.0.1:0"),
            *("--only", "--data", str(tmp_path / "net")),
        )
        for start in (1, 2):  # the second has it already
            relay = OperatorProcess(tmp_path, "relay", *options)
            try:
                assert authority.n_issued == 1, start
                invite = read_invite(Path(relay.report["invite"]))
                assert invite.relay.host == "relay.example"
                shown = shown_certificate(relay.report["listen"][1])
            finally:
                assert relay.stop() == 0, relay.log.read_text()
    (file,) = (tmp_path / "net" / "acme").glob("*/certificate.pem")
    held = read_certificate_file(file.read_bytes())
    assert held is not None
    assert held.domains == {"relay.example"}
    assert shown in file.read_text()


def shown_certificate(port: int) -> str:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        pinning_context().wrap_socket(plain) as secure,
    ):
        der = secure.getpeercert(binary_form=True)
    assert der is not None
    return ssl.DER_cert_to_PEM_cert(der).strip()


def test_an_authority_that_refuses_is_one_line(tmp_path: Path) -> None:
    with acme_server(tmp_path, validation_port=9) as authority:
        shown = run_operator_command(
            *("relay", "--acme", "relay.example", "--acme-listen", "127.0.0.1:0"),
            *("--acme-server", f"{authority.url}/directory"),
            *("--acme-ca", str(authority.ca_file), "--listen", "127.0.0.1:0"),
            *("--data", str(tmp_path / "net")),
        )
    assert shown.returncode == 2, shown.stderr
    assert "Traceback" not in shown.stderr
    last = shown.stderr.splitlines()[-1]
    assert last.startswith("error: the authority could not verify relay.example")
    assert "port 80" in last
