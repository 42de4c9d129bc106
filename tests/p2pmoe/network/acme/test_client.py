"""Against an authority on loopback that checks each request by code of its own."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from p2pmoe.network.acme.client import new_key_pem, obtain
from p2pmoe.network.acme.errors import AcmeFailed
from p2pmoe.network.acme.renewal import read_certificate_file
from p2pmoe.network.acme.settings import AcmeSettings
from tests.support.acme_server import AcmeServer, acme_server

DOMAINS = ("relay.example", "www.relay.example")


@pytest.fixture
def answers() -> dict[str, str]:
    return {}


@pytest.fixture
def authority(tmp_path: Path, answers: dict[str, str]) -> Iterator[AcmeServer]:
    class Responder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            token = self.path.rpartition("/")[2]
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answers.get(token, "?").encode())

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    responder = HTTPServer(("127.0.0.1", 0), Responder)
    thread = threading.Thread(target=responder.serve_forever, args=(0.02,))
    thread.start()
    with acme_server(tmp_path, validation_port=responder.server_port) as server:
        yield server
    responder.shutdown()
    thread.join()
    responder.server_close()


def settings(authority: AcmeServer, **changes: object) -> AcmeSettings:
    given = {
        "domains": DOMAINS,
        "email": "operator@relay.example",
        "server": f"{authority.url}/directory",
        "ca_file": authority.ca_file,
    }
    return AcmeSettings(**(given | changes))


def test_a_certificate_of_a_new_key_and_the_account_once(authority, answers) -> None:
    account = new_key_pem()
    authority.faults.add("stale nonce")  # is tried again by itself
    first = obtain(settings(authority), account, answers.__setitem__)
    second = obtain(settings(authority), account, answers.__setitem__)
    held = read_certificate_file(first)
    assert held is not None
    assert held.domains == frozenset(DOMAINS)
    assert first.split(b"-----END")[0] != second.split(b"-----END")[0]
    assert (authority.n_accounts, authority.n_issued) == (1, 2)


def test_an_answer_that_does_not_arrive_is_said_with_the_authoritys_words(
    authority,
) -> None:
    with pytest.raises(AcmeFailed, match="could not verify relay") as caught:
        obtain(settings(authority), new_key_pem(), lambda *_: None)
    assert "port 80" in caught.value.advice
    assert str(caught.value).isprintable()  # whatever the authority wrote


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("rate", "refuses: too many certificates already"),
        ("silent", "does not ask over HTTP for"),
    ],
)
def test_each_refusal_has_its_line(authority, answers, fault: str, reason: str) -> None:
    authority.faults.add(fault)
    with pytest.raises(AcmeFailed, match=reason) as caught:
        obtain(settings(authority), new_key_pem(), answers.__setitem__)
    assert caught.value.advice


def test_an_authority_that_is_not_trusted_not_there_or_none(authority, answers) -> None:
    account = new_key_pem()
    untrusted = settings(authority, ca_file=None)
    nowhere = settings(authority, server="https://127.0.0.1:9/directory")
    no_file = settings(authority, ca_file=Path("/dev/null/none.pem"))
    none = settings(authority, server=f"http://127.0.0.1:{authority.validation_port}/")
    for wrong, reason in (
        (untrusted, r"cannot be reached: [a-z -]*certificate[a-z ]*$"),
        (nowhere, "cannot be reached: connection refused$"),
        (no_file, "cannot be reached"),
        (none, "what is no ACME"),
    ):
        with pytest.raises(AcmeFailed, match=reason):
            obtain(wrong, account, answers.__setitem__)


@pytest.mark.parametrize(
    "directory",
    [
        "[]",
        "7",
        '{"newNonce": 5, "newAccount": []}',
        '{"newNonce": "http://127.0.0.1:PORT/n", "newAccount": {}}',
        '{"meta": [], "newAccount": "http://127.0.0.1:PORT/a"}',
        '{"newNonce": "file:///etc/passwd", "newAccount": "x"}',
    ],
)
def test_no_nonsense_of_an_authority_ends_a_relay(
    authority, answers, directory: str
) -> None:
    port = str(authority.validation_port)
    answers["directory"] = directory.replace("PORT", port)
    wrong = settings(authority, server=f"http://127.0.0.1:{port}/directory")
    with pytest.raises(AcmeFailed) as caught:
        obtain(wrong, new_key_pem(), answers.__setitem__)
    assert str(caught.value).isprintable()
