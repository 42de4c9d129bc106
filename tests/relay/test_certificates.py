"""What a certificate says, whatever somebody wrote into it."""

import datetime as dt

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from relay.certificates import read_certificate
from relay.tls import self_signed_certificate
from tests.support.relays import RELAY

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
END = dt.datetime(2026, 4, 1, tzinfo=dt.UTC)


def named(kind: x509.ObjectIdentifier, text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, text)])


def certificate(subject: x509.Name, issuer: x509.Name) -> bytes:
    private = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(private.public_key())
        .serial_number(7)
        .not_valid_before(START)
        .not_valid_after(END)
    )
    signed = builder.sign(private, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.DER)


def test_names_and_dates() -> None:
    facts = read_certificate(
        certificate(
            named(x509.NameOID.COMMON_NAME, "relay.example.org"),
            named(x509.NameOID.ORGANIZATION_NAME, "Corp CA"),
        )
    )
    assert (facts.subject, facts.issuer) == ("relay.example.org", "Corp CA")
    assert (facts.not_before, facts.not_after) == (START, END)
    assert facts.key is None
    assert not facts.is_self_signed


def test_a_relays_own_certificate_has_its_id_as_key() -> None:
    pem = self_signed_certificate(RELAY, ("localhost",))
    loaded = x509.load_pem_x509_certificate(pem)
    facts = read_certificate(loaded.public_bytes(serialization.Encoding.DER))
    assert facts.key == RELAY.peer_id
    assert facts.is_self_signed
    assert facts.not_after.year == 9999


def test_a_name_cannot_steer_the_terminal() -> None:
    name = named(x509.NameOID.COMMON_NAME, "a\x1b[2Jb")
    facts = read_certificate(certificate(name, named(x509.NameOID.LOCALITY_NAME, "x")))
    assert facts.subject == "a\N{REPLACEMENT CHARACTER}[2Jb"
    assert facts.issuer == "L=x"


@given(st.binary(max_size=200))
def test_what_is_no_certificate_says_nothing(der: bytes) -> None:
    assert read_certificate(der) is None
    assert read_certificate(None) is None
