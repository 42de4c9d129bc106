"""Reaching a relay: addresses, certificates, and no plaintext."""

import datetime as dt
import socket
import ssl

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from relay import ClientSettings
from relay.dial import dial
from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import (
    CertificateRefused,
    PlaintextRefused,
    RelayUnreachable,
    WrongRelayId,
)
from relay.tls import TlsFiles, self_signed_certificate
from tests.relay.test_tls import write_files
from tests.support.relays import (
    RELAY,
    joined,
    key,
    plain_config,
    running_relay,
    tls_config,
)
from tests.support.trio_test import trio_test

STRICT = ClientSettings()


@trio_test
async def test_a_self_signed_relay_is_known_by_its_id() -> None:
    async with running_relay(tls_config()) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        dialled = await dial(endpoint)
        assert isinstance(dialled.stream, trio.SSLStream)
        assert dialled.stream.version() == "TLSv1.3"
        dialled.transport.close()
        async with joined(endpoint, key(1), settings=STRICT) as connection:
            assert connection.welcome.relay_id == RELAY.peer_id


@trio_test
async def test_wrong_relay_id() -> None:
    async with running_relay(tls_config()) as relay:
        other = Endpoint(relay.endpoint("127.0.0.1").url, key(9).peer_id)
        with pytest.raises(WrongRelayId) as caught:
            await dial(other)
    assert RELAY.peer_id.hex()[:8] in str(caught.value)
    assert caught.value.advice
    assert caught.value.exit_code == 2


@trio_test
async def test_without_an_id_an_authority_must_vouch(tmp_path) -> None:
    async with running_relay(tls_config()) as relay:
        url = relay.endpoint("localhost").url
        with pytest.raises(CertificateRefused, match=r"self.signed") as caught:
            await dial(Endpoint(url))
        assert "invite" in caught.value.advice


@trio_test
async def test_an_authoritys_file(tmp_path) -> None:
    """The test certificate is its own authority; then the id is proven by the relay."""
    files = authority_files(tmp_path)
    config = tls_config_with(files)
    async with running_relay(config) as relay:
        url = relay.endpoint("localhost").url
        endpoint = Endpoint(url, RELAY.peer_id, files.certificate)
        async with joined(endpoint, key(1), settings=STRICT) as connection:
            assert connection.welcome.relay_id == RELAY.peer_id
        with pytest.raises(WrongRelayId):
            async with joined(
                Endpoint(url, key(9).peer_id, files.certificate),
                key(1),
                settings=STRICT,
            ):
                pass


@trio_test
async def test_a_front_with_a_foreign_certificate_is_not_the_pinned_relay(
    tmp_path,
) -> None:
    files = authority_files(tmp_path)
    async with running_relay(tls_config_with(files)) as relay:
        with pytest.raises(WrongRelayId, match="neither"):
            await dial(relay.endpoint("localhost"))


def authority_files(folder) -> TlsFiles:
    """A P-256 certificate for localhost, as a front would have, that signs itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "front")])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(1)
        .not_valid_before(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2090, 1, 1, tzinfo=dt.UTC))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .sign(private, hashes.SHA256())
    )
    files = TlsFiles(certificate=folder / "front.pem", key=folder / "front.key")
    pem = serialization.Encoding.PEM
    files.certificate.write_bytes(certificate.public_bytes(pem))
    files.key.write_bytes(
        private.private_bytes(
            pem,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def tls_config_with(files: TlsFiles):
    return plain_config(tls=files, behind_front=False, host=None)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("ws://127.0.0.1:1/relay", False),
        ("ws://relay.example.org:1/relay", True),
        ("ws://192.0.2.1:1/relay", True),
    ],
)
def test_plaintext_is_refused(url: str, allowed: bool) -> None:
    async def main() -> None:
        with pytest.raises(PlaintextRefused) as caught:
            await dial(parse_endpoint(url), allow_plaintext=allowed)
        assert "wss://" in caught.value.advice

    trio.run(main)


@trio_test
async def test_unreachable_relay() -> None:
    with pytest.raises(RelayUnreachable, match="connection refused") as caught:
        await dial(parse_endpoint("wss://127.0.0.1:1/relay"))
    assert "127.0.0.1:1" in str(caught.value)
    assert caught.value.advice


@trio_test
async def test_an_unknown_host(monkeypatch) -> None:
    async def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr("relay.dial.trio.open_tcp_stream", unknown)
    with pytest.raises(RelayUnreachable, match="host name is not known"):
        await dial(parse_endpoint("wss://nowhere.invalid/relay"))


@trio_test
async def test_plain_http_at_the_port() -> None:
    async with running_relay(plain_config()) as relay:
        endpoint = Endpoint(f"wss://127.0.0.1:{relay.port}/relay", RELAY.peer_id)
        with pytest.raises(RelayUnreachable, match="no TLS") as caught:
            await dial(endpoint)
        assert "port" in caught.value.advice


def test_the_self_signed_pem_is_what_tls_loads(tmp_path) -> None:
    files = write_files(tmp_path)
    assert files.certificate.read_bytes() == self_signed_certificate(
        RELAY, ("localhost",)
    )
    assert ssl.PEM_cert_to_DER_cert(files.certificate.read_text())
