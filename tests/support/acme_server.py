"""An ACME authority on loopback, for tests: RFC 8555 as far as HTTP-01 goes.

It checks what an authority checks, with code of its own: that each request is signed by
its account's key over this URL and a nonce that was given out once, that the answer is
fetched from the responder and is right, and that the CSR asks for the ordered names.
It speaks TLS with a certificate of its own, `ca_file`. `faults` are named refusals:
"rate" (newOrder is refused), "stale nonce" (the first one), "silent" (not HTTP-01).
"""

import base64
import datetime as dt
import hashlib
import http.client
import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from tests.relay.test_dial import authority_files

__all__ = ["AcmeServer", "acme_server", "issue_certificate"]

_DAY = dt.timedelta(days=1)


@dataclass(kw_only=True)
class AcmeServer:
    """The authority's state; `validation_port` is where it asks for each name."""

    url: str = ""
    ca_file: Path
    validation_port: int = 0
    faults: set[str] = field(default_factory=set)
    life: dt.timedelta = 90 * _DAY
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    n_accounts: int = 0
    n_issued: int = 0
    nonces: set[str] = field(default_factory=set)
    keys: dict[str, dict[str, str]] = field(default_factory=dict)
    orders: dict[str, dict[str, Any]] = field(default_factory=dict)
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )


class Refused(Exception):
    """A problem document (RFC 8555, section 6.7)."""

    def __init__(self, kind: str, detail: str, status: int = 400) -> None:
        super().__init__(detail)
        self.kind, self.status = kind, status


@contextmanager
def acme_server(folder: Path, **settings: Any) -> Iterator[AcmeServer]:
    """Run an authority while the block runs."""
    files = authority_files(folder)
    server = AcmeServer(ca_file=files.certificate, **settings)
    handler = type("Bound", (_Handler,), {"authority": server})
    listener = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    listener.socket = context.wrap_socket(listener.socket, server_side=True)
    server.url = f"https://localhost:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


class _Handler(BaseHTTPRequestHandler):
    authority: AcmeServer
    protocol_version = "HTTP/1.1"
    timeout = 20

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """The directory."""
        url = self.authority.url
        names = ("newNonce", "newAccount", "newOrder")
        self._send(200, {name: f"{url}/{name}" for name in names})

    def do_HEAD(self) -> None:
        """A fresh nonce."""
        self._send(200, None)

    def do_POST(self) -> None:
        """Anything else: signed."""
        length = int(self.headers["Content-Length"])
        try:
            jws = json.loads(self.rfile.read(length))
            self._dispatch(*_opened(self.authority, jws, self.path))
        except Refused as exc:
            urn = f"urn:ietf:params:acme:error:{exc.kind}"
            self._send(exc.status, {"type": urn, "detail": str(exc)}, problem=True)

    def _dispatch(self, account: str, jwk: dict[str, str], payload: Any) -> None:
        kind, _, name = self.path.strip("/").partition("/")
        server = self.authority
        if kind == "newAccount":
            known = account in server.keys
            server.keys[account] = jwk
            server.n_accounts += not known
            assert payload["termsOfServiceAgreed"] is True
            location = f"{server.url}/account/{account}"
            self._send(200 if known else 201, {"status": "valid"}, location=location)
        elif kind == "newOrder":
            order = _new_order(server, account, payload)
            location = f"{server.url}/order/{order}"
            self._send(201, _order(server, order), location=location)
        elif kind == "authz":
            self._send(200, _authorization(server, name))
        elif kind == "chall":
            _validate(server, name, jwk)
            challenge = _authorization(server, name)["challenges"][0]
            self._send(200, challenge, up=f"{server.url}/authz/{name}")
        elif kind == "finalize":
            _finalize(server, name, payload["csr"])
            self._send(200, _order(server, name))
        elif kind == "order":
            self._send(200, _order(server, name))
        else:
            self._send_pem(server.orders[name]["chain"])

    def _send(
        self,
        status: int,
        body: Any,
        *,
        location: str = "",
        up: str = "",
        problem: bool = False,
    ) -> None:
        kind = "application/problem+json" if problem else "application/json"
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"Location": location, "Link": up and f'<{up}>;rel="up"'}
        self._send_raw(status, kind, raw, headers)

    def _send_pem(self, pem: bytes) -> None:
        self._send_raw(200, "application/pem-certificate-chain", pem, {})

    def _send_raw(
        self, status: int, kind: str, raw: bytes, headers: dict[str, str]
    ) -> None:
        nonce = secrets.token_urlsafe(16)
        self.authority.nonces.add(nonce)
        self.send_response(status)
        self.send_header("Replay-Nonce", nonce)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _thumbprint(jwk: dict[str, str]) -> str:
    """RFC 7638."""
    required = {name: jwk[name] for name in ("crv", "kty", "x", "y")}
    text = json.dumps(required, sort_keys=True, separators=(",", ":"))
    return _text(hashlib.sha256(text.encode()).digest())


def _opened(
    server: AcmeServer, jws: dict[str, str], path: str
) -> tuple[str, dict[str, str], Any]:
    """Check a request's signature, nonce and URL; return account, key and payload."""
    header = json.loads(_bytes(jws["protected"]))
    if header["url"] != server.url + path or header["alg"] != "ES256":
        raise Refused("malformed", "another URL or algorithm")
    if header["nonce"] not in server.nonces or "stale nonce" in server.faults:
        server.faults.discard("stale nonce")
        raise Refused("badNonce", "that nonce was not given out, or was used")
    server.nonces.remove(header["nonce"])
    if "kid" in header:
        account = header["kid"].rpartition("/")[2]
        jwk = server.keys[account]
    else:
        jwk = header["jwk"]
        account = _thumbprint(jwk)
    numbers = [int.from_bytes(_bytes(jwk[name]), "big") for name in ("x", "y")]
    key = ec.EllipticCurvePublicNumbers(*numbers, ec.SECP256R1()).public_key()
    raw = _bytes(jws["signature"])
    halves = [int.from_bytes(part, "big") for part in (raw[:32], raw[32:])]
    signed = f"{jws['protected']}.{jws['payload']}".encode()
    key.verify(encode_dss_signature(*halves), signed, ec.ECDSA(hashes.SHA256()))
    payload = _bytes(jws["payload"])
    return account, jwk, json.loads(payload) if payload else None


def _new_order(server: AcmeServer, account: str, payload: Any) -> str:
    if "rate" in server.faults:
        raise Refused("rateLimited", "too many certificates already", 429)
    order = secrets.token_hex(8)
    names = [each["value"] for each in payload["identifiers"]]
    server.orders[order] = {
        "account": account,
        "names": names,
        "tokens": [secrets.token_urlsafe(16) for _ in names],
        "states": ["pending"] * len(names),
        "errors": [None] * len(names),
        "chain": b"",
    }
    return order


def _order(server: AcmeServer, name: str) -> dict[str, Any]:
    order = server.orders[name]
    valid = all(state == "valid" for state in order["states"])
    status = "valid" if order["chain"] else "ready" if valid else "pending"
    made = {
        "status": status,
        "identifiers": [{"type": "dns", "value": each} for each in order["names"]],
        "authorizations": [
            f"{server.url}/authz/{name}-{number}"
            for number in range(len(order["names"]))
        ],
        "finalize": f"{server.url}/finalize/{name}",
    }
    return made | ({"certificate": f"{server.url}/cert/{name}"} if valid else {})


def _authorization(server: AcmeServer, name: str) -> dict[str, Any]:
    order_name, _, number = name.partition("-")
    order, at = server.orders[order_name], int(number)
    challenge = {
        "type": "dns-01" if "silent" in server.faults else "http-01",
        "url": f"{server.url}/chall/{name}",
        "token": order["tokens"][at],
        "status": order["states"][at],
    }
    if order["errors"][at]:
        urn = "urn:ietf:params:acme:error:unauthorized"
        challenge["error"] = {"type": urn, "detail": order["errors"][at]}
    return {
        "status": order["states"][at],
        "identifier": {"type": "dns", "value": order["names"][at]},
        "challenges": [challenge],
    }


def _validate(server: AcmeServer, name: str, jwk: dict[str, str]) -> None:
    """Ask the responder, as RFC 8555, section 8.3 has it."""
    order_name, _, number = name.partition("-")
    order, at = server.orders[order_name], int(number)
    token = order["tokens"][at]
    connection = http.client.HTTPConnection(
        "127.0.0.1", server.validation_port, timeout=10
    )
    try:
        headers = {"Host": order["names"][at]}
        path = f"/.well-known/acme-challenge/{token}"
        connection.request("GET", path, headers=headers)
        found = connection.getresponse().read(1000).decode("ascii").rstrip()
    except OSError as exc:
        found = f"{type(exc).__name__}"
    finally:
        connection.close()
    if found == f"{token}.{_thumbprint(jwk)}":
        order["states"][at] = "valid"
    else:
        order["states"][at] = "invalid"
        order["errors"][at] = f"answered\n\x1b[2J{found!r}"


def _finalize(server: AcmeServer, name: str, csr_text: str) -> None:
    order = server.orders[name]
    csr = x509.load_der_x509_csr(_bytes(csr_text))
    assert csr.is_signature_valid
    names = csr.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    if set(names.value.get_values_for_type(x509.DNSName)) != set(order["names"]):
        raise Refused("badCSR", "the CSR asks for other names")
    server.n_issued += 1
    order["chain"] = issue_certificate(
        server.key, csr.public_key(), order["names"], server.now, server.life
    )


def issue_certificate(
    signer: ec.EllipticCurvePrivateKey,
    key: Any,
    names: list[str],
    not_before: dt.datetime,
    life: dt.timedelta,
) -> bytes:
    """Return PEM of a certificate of `key` for `names`."""
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_before + life)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName(each) for each in names]),
            critical=True,
        )
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)
