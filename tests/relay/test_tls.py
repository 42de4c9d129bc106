"""Certificates: files, and the relay's identity key as its certificate's key."""

import os
import ssl
import tempfile

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    NoEncryption,
)

from relay.certificates import read_certificate
from relay.errors import CertificateError
from relay.tls import (
    SelfSigned,
    TlsFiles,
    client_context,
    pinning_context,
    self_signed_certificate,
    server_context,
)
from tests.support.relays import RELAY, key

PEM = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)


def write_files(folder, owner=RELAY, certified=RELAY) -> TlsFiles:
    files = TlsFiles(certificate=folder / "cert.pem", key=folder / "key.pem")
    files.certificate.write_bytes(self_signed_certificate(certified, ("localhost",)))
    files.key.write_bytes(
        owner.private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def der(pem: bytes) -> bytes:
    certificate = x509.load_pem_x509_certificate(pem)
    return certificate.public_bytes(serialization.Encoding.DER)


def test_the_certificate_carries_the_identity_key_and_names() -> None:
    pem = self_signed_certificate(RELAY, ("localhost", "127.0.0.1"))
    facts = read_certificate(der(pem))
    assert facts is not None
    assert facts.key == RELAY.peer_id
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(a) for a in names.value.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1"
    ]


def test_contexts_offer_http_1_1_only_and_leave_no_key_on_disk(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    context = server_context(SelfSigned(), RELAY)
    assert not list(tmp_path.iterdir())
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    client_context_ = pinning_context()
    client_context_.set_alpn_protocols(["h2", "http/1.1"])
    client = client_context_.wrap_bio(outgoing, incoming)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert client.selected_alpn_protocol() == "http/1.1"
    facts = read_certificate(client.getpeercert(binary_form=True))
    assert facts is not None
    assert facts.key == RELAY.peer_id


def test_no_room_for_a_temporary_file_is_one_line(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(CertificateError, match="temporary file") as caught:
        server_context(SelfSigned(names=("localhost",)), RELAY)
    assert "TMPDIR" in caught.value.advice


def test_certificate_files(tmp_path) -> None:
    server_context(write_files(tmp_path), RELAY)


def test_a_key_that_does_not_fit_is_refused(tmp_path) -> None:
    files = write_files(tmp_path, owner=key(1))
    with pytest.raises(CertificateError, match="mismatch"):
        server_context(files, RELAY)
    other_kind = ec.generate_private_key(ec.SECP256R1())
    files.key.write_bytes(other_kind.private_bytes(*PEM, NoEncryption()))
    with pytest.raises(CertificateError, match="mismatch"):
        server_context(files, RELAY)


def test_nothing_of_the_files_makes_a_relay_wait(tmp_path) -> None:
    files = write_files(tmp_path)
    files.key.write_bytes(
        RELAY.private.private_bytes(*PEM, BestAvailableEncryption(b"a phrase"))
    )
    with pytest.raises(CertificateError, match="passphrase"):  # nobody is asked
        server_context(files, RELAY)
    for path in (files.key, files.certificate):
        path.unlink()
        os.mkfifo(path)
        with pytest.raises(CertificateError, match=f"{path} is no regular file"):
            server_context(files, RELAY)


def test_files_that_are_missing_or_no_pem_are_named(tmp_path) -> None:
    files = write_files(tmp_path)
    files.key.unlink()
    with pytest.raises(CertificateError, match=r"key\.pem: no such file"):
        server_context(files, RELAY)
    files.certificate.write_text("nonsense")
    files.key.write_text("nonsense")
    with pytest.raises(CertificateError, match="pem"):
        server_context(files, RELAY)


def test_an_authority_file_that_cannot_be_used_is_named(tmp_path) -> None:
    with pytest.raises(CertificateError, match=r"none\.pem"):
        client_context(tmp_path / "none.pem")
    (tmp_path / "bad.pem").write_text("nonsense")
    with pytest.raises(CertificateError, match=r"bad\.pem"):
        client_context(tmp_path / "bad.pem")
