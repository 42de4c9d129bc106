"""What a certificate says, for messages and reports. Nothing here decides on trust.

Every text in it is the other side's: it is cut to 80 printable characters.
"""

import datetime as dt
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

__all__ = ["CertificateFacts", "read_certificate"]

_MAX_CHARACTERS = 80
_NAMED_BY = (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """Who issued it to whom, until when; `key` is its Ed25519 key, None for another."""

    subject: str
    issuer: str
    not_before: dt.datetime
    not_after: dt.datetime
    key: bytes | None

    @property
    def is_self_signed(self) -> bool:
        """Whether it names itself as its issuer."""
        return self.subject == self.issuer


def read_certificate(der: bytes | None) -> CertificateFacts | None:
    """Return what a DER certificate says; None if it cannot be read."""
    if not der:
        return None
    try:
        certificate = x509.load_der_x509_certificate(der)
        key = certificate.public_key()
        return CertificateFacts(
            subject=_shown(certificate.subject),
            issuer=_shown(certificate.issuer),
            not_before=certificate.not_valid_before_utc,
            not_after=certificate.not_valid_after_utc,
            key=key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else None,
        )
    except (ValueError, UnsupportedAlgorithm):
        return None


def _shown(name: x509.Name) -> str:
    for kind in _NAMED_BY:
        for attribute in name.get_attributes_for_oid(kind):
            return _printable(str(attribute.value))
    return _printable(name.rfc4514_string())


def _printable(text: str) -> str:
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return shown[:_MAX_CHARACTERS]
