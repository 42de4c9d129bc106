"""Certificates: files, or one made from the relay's own identity key.

With `SelfSigned` the key of the TLS certificate *is* the relay's Ed25519 identity key,
so that whoever knows the relay's id needs no authority: the id is compared with the
certificate's public key, and TLS itself proves that the other end holds it. ALPN offers
http/1.1 only; a proxy that would choose HTTP/2 breaks the upgrade.
"""

import datetime as dt
import ipaddress
import os
import ssl
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import NameOID

from relay.errors import CertificateError
from relay.keys import SigningKey

__all__ = [
    "SelfSigned",
    "TlsFiles",
    "client_context",
    "pinning_context",
    "self_signed_certificate",
    "server_context",
]

_MISMATCH = "the key is not the certificate's (key values mismatch)"
_REASONS = {
    None: "one of them is no pem, is not whole, or has a passphrase",
    "KEY_VALUES_MISMATCH": _MISMATCH,
    "NO_CERTIFICATE_ASSIGNED": _MISMATCH,
}
_NOT_BEFORE = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_NOT_AFTER = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a certificate chain and its key."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfSigned:
    """A certificate made at start from the relay's identity key. `names`: its hosts."""

    names: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def self_signed_certificate(identity: SigningKey, names: tuple[str, ...]) -> bytes:
    """Return a PEM certificate of the identity key, signed by itself.

    It carries fixed dates: what vouches for it is the pinned id, not a calendar.
    """
    title = f"p2pmoe relay {identity.peer_id.hex()[:16]}"
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(identity.private.public_key())
        .serial_number(int.from_bytes(identity.peer_id[:8], "big") | 1)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    certificate = builder.sign(identity.private, algorithm=None)
    return certificate.public_bytes(serialization.Encoding.PEM)


def server_context(tls: TlsFiles | SelfSigned, identity: SigningKey) -> ssl.SSLContext:
    """Build the server's TLS context.

    Raises:
        CertificateError: a file is missing, unreadable, or does not fit the other.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if isinstance(tls, SelfSigned):
        try:
            _load_own(context, identity, tls.names)
        except OSError as exc:
            reason = (exc.strerror or str(exc)).lower()
            raise CertificateError(
                f"cannot write a temporary file for the relay's certificate: {reason}",
                advice="make room in the system's temporary folder, or set TMPDIR",
            ) from exc
        return context
    _check_readable(tls.certificate)
    _check_readable(tls.key)
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, OSError) as exc:
        known = _REASONS.get(getattr(exc, "reason", None))
        reason = known or (exc.strerror or str(exc)).lower()
        raise CertificateError(
            f"certificate {tls.certificate} with key {tls.key}: {reason}"
        ) from exc
    return context


def _check_readable(path: Path) -> None:
    """Name the one file that cannot be read; a pipe would stop the whole relay."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise CertificateError(f"{path} is no regular file")
        path.open("rb").close()
    except OSError as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise CertificateError(f"cannot read {path}: {reason}") from exc


def _no_password() -> str:
    """Stand in for the question on the terminal, which would stop the whole relay."""
    return ""


def _load_own(
    context: ssl.SSLContext, identity: SigningKey, names: tuple[str, ...]
) -> None:
    # The ssl module loads keys from files only: a folder of mode 0700, gone at once.
    private_pem = identity.private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with tempfile.TemporaryDirectory(prefix="p2pmoe-") as folder:
        path = Path(folder, "relay.pem")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(private_pem + self_signed_certificate(identity, names))
        context.load_cert_chain(path)


def client_context(ca_file: Path | None) -> ssl.SSLContext:
    """Build a context that trusts the system's authorities, and those of `ca_file`.

    Raises:
        CertificateError: `ca_file` cannot be used.
    """
    try:
        context = ssl.create_default_context()
        if ca_file is not None:
            context.load_verify_locations(ca_file)
    except (OSError, ssl.SSLError) as exc:
        reason = (exc.strerror or str(exc)).lower()
        raise CertificateError(
            f"cannot use authority file {ca_file}: {reason}",
            advice="give the authority's certificate in PEM form",
        ) from exc
    context.set_alpn_protocols(["http/1.1"])
    return context


def pinning_context() -> ssl.SSLContext:
    """Build a context that accepts any certificate: its key is compared afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Not 1.3: what answers may be a front or proxy with an authority's certificate.
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context
