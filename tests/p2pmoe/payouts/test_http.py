"""The HTTP callback: what each answer means, and what never leaves the house."""

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from p2pmoe.payouts.errors import PayoutError
from p2pmoe.payouts.http import HttpCallback, outcome_of, read_token
from relay.keys import SigningKey
from relay.tls import SelfSigned, self_signed_certificate, server_context
from tests.support.payout_orders import order

URL = "https://pay.example/payouts"


def send(handler, *orders):
    with HttpCallback(
        URL, "s3cret", transport=httpx.MockTransport(handler)
    ) as callback:
        return callback.send(orders or [order(1)])


def test_a_payment_is_one_post_with_its_key():
    seen = []

    def handler(request):
        seen.append(request)
        return httpx.Response(201, json={"status": "accepted", "reference": "R-1"})

    (outcome,) = send(handler)
    assert (outcome.kind, outcome.reference, outcome.stop) == ("sent", "R-1", False)
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", URL)
    assert request.headers["Idempotency-Key"] == order(1).key
    assert request.headers["Authorization"] == "Bearer s3cret"
    assert json.loads(request.content) == {
        "id": order(1).id,
        "period": "2026-11",
        "payee": "acct_1",
        "name": "Ada Lovelace",
        "amount": "12.34",
        "amount_minor": 1234,
        "currency": "EUR",
    }


@pytest.mark.parametrize(
    ("status", "body", "kind", "stop"),
    [
        (200, b"", "sent", False),
        (200, b"<html>Log in to this network", "unresolved", True),
        (200, b'{"status": "paid"}', "confirmed", False),
        (200, b'{"status": "rejected", "reason": "closed"}', "failed", False),
        (200, b'{"status": "accepted", "status": "paid"}', "unresolved", True),
        (200, b"[]", "unresolved", True),
        (200, b"{}", "sent", False),
        (200, None, "unresolved", True),
        (400, b'{"reason": "no such payee"}', "failed", False),
        (422, b"", "unresolved", False),
        (401, b"", "failed", True),
        (403, b"", "failed", True),
        (404, b"", "failed", True),
        (429, b"", "failed", True),
        (408, b"", "unresolved", True),
        (409, b"", "unresolved", True),
        (425, b"", "unresolved", True),
        (302, b"", "unresolved", True),
        (500, b"", "unresolved", True),
        (503, b'{"status": "paid"}', "unresolved", True),
        (199, b"", "unresolved", True),
    ],
)
def test_what_an_answer_means(status, body, kind, stop):
    outcome = outcome_of(status, body)
    assert (outcome.kind, outcome.stop) == (kind, stop)


def test_the_outside_writes_short_printable_lines():
    body = json.dumps({"reference": "\x1b[2J" + "x" * 500, "status": "paid"}).encode()
    reference = outcome_of(200, body).reference
    assert reference.isprintable()
    assert len(reference) <= 140
    assert outcome_of(400, b'{"reason": {"a": 1}}').detail == "answer 400"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (httpx.ConnectError("refused"), "failed"),
        (httpx.ConnectTimeout("slow"), "failed"),
        (httpx.ReadTimeout("slow"), "unresolved"),
        (httpx.WriteTimeout("slow"), "unresolved"),
        (httpx.ReadError("reset"), "unresolved"),
        (httpx.RemoteProtocolError("gone"), "unresolved"),
    ],
)
def test_only_what_was_surely_not_sent_has_failed(error, kind):
    def handler(request):
        raise error

    (outcome,) = send(handler)
    assert (outcome.kind, outcome.stop) == (kind, True)


def test_an_endless_answer_is_not_read():
    def handler(request):
        return httpx.Response(200, content=b"x" * (1 << 17))

    (outcome,) = send(handler)
    assert (outcome.kind, outcome.stop) == ("unresolved", True)


def test_an_answer_that_was_packed_unasked_is_not_unpacked():
    def handler(request):
        assert request.headers["Accept-Encoding"] == "identity"
        headers = {"Content-Encoding": "gzip"}
        raw = gzip.compress(b'{"status": "paid"}')
        return httpx.Response(200, headers=headers, stream=httpx.ByteStream(raw))

    (outcome,) = send(handler)
    assert outcome.kind == "unresolved"


def test_an_answer_that_drips_is_left():
    now = iter(range(0, 10_000, 25))

    def handler(request):
        return httpx.Response(200, content=(b"x" for _ in range(1000)))

    transport = httpx.MockTransport(handler)
    with HttpCallback(
        URL, "", transport=transport, monotonic=lambda: next(now)
    ) as callback:
        (outcome,) = callback.send([order(1)])
    assert (outcome.kind, outcome.stop) == ("unresolved", True)
    assert next(now) < 200


@pytest.mark.parametrize(
    "url",
    ["http://pay.example/", "ftp://pay.example/", "https://", "", "pay", "https://[::"],
)
def test_only_https(url):
    with pytest.raises(PayoutError, match="URL"):
        HttpCallback(url, "")


def test_no_password_in_the_url():
    with pytest.raises(PayoutError) as caught:
        HttpCallback("https://ada:hunter2@pay.example/", "")
    assert "hunter2" not in str(caught.value) + caught.value.advice


def test_a_token_is_private(tmp_path):
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    path.chmod(0o600)
    assert read_token(path) == "s3cret"
    path.chmod(0o644)
    with pytest.raises(PayoutError, match="others may read") as caught:
        read_token(path)
    assert "chmod 600" in caught.value.advice
    for raw in (b"", b"\n", b"a\x00b", b"\xff", b"a\nb"):
        path.write_bytes(raw)
        path.chmod(0o600)
        with pytest.raises(PayoutError, match="holds no token"):
            read_token(path)
    with pytest.raises(PayoutError, match="there is no token file"):
        read_token(tmp_path / "none")


@pytest.fixture
def service(tmp_path):
    """A payment service on loopback behind TLS, and the file that vouches for it."""
    identity = SigningKey.from_seed(b"payment service, in a test......")
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(self_signed_certificate(identity, ("localhost",)))
    context = server_context(SelfSigned(names=("localhost",)), identity)
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"https://localhost:{server.server_port}/pay", ca_file
        server.shutdown()
        thread.join()


class Service(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        said = {"status": "paid", "reference": f"{body['payee']}/{body['amount']}"}
        raw = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


def test_a_service_is_believed_by_its_certificate(service):
    url, ca_file = service
    with HttpCallback(url, "s3cret", ca_file) as callback:
        (outcome,) = callback.send([order(1)])
    assert (outcome.kind, outcome.reference) == ("confirmed", "acct_1/12.34")
    with HttpCallback(url, "s3cret") as callback:
        (outcome,) = callback.send([order(1)])
    assert (outcome.kind, outcome.stop) == ("failed", True)
    assert "certificate" in outcome.detail


def test_who_has_no_id_is_not_for_the_callback():
    with HttpCallback(URL, "") as callback:
        assert callback.refusal(order(1).payee) == ""
        assert "has no id" in callback.refusal(order(1, id="").payee)
