"""When a certificate is renewed, and what a file of it says. Pure.

It is renewed after two thirds of its life, whatever that is: 60 days of 90, or 4.5 of
a short-lived one's 6.7. An attempt that failed is repeated after 10 minutes, then after
twice as long each time up to 6 hours: authorities count failures by the hour.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

__all__ = ["CertificateFile", "is_due", "read_certificate_file", "retry_after_s"]

_FIRST_RETRY_S: Final = 600.0
_MAX_RETRY_S: Final = 6 * 3600.0
_SHARE_OF_LIFE: Final = 2 / 3
_SPREAD: Final = 0.1  # of its life: not all relays come at once


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFile:
    """What the first certificate of a file says; its key is in the file too."""

    domains: frozenset[str]
    not_before: dt.datetime
    not_after: dt.datetime


def read_certificate_file(raw: bytes) -> CertificateFile | None:
    """Read PEM of a chain with its key; None unless both are there and fit."""
    try:
        certificate = x509.load_pem_x509_certificates(raw)[0]
        key = serialization.load_pem_private_key(raw, password=None)
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except (ValueError, TypeError, IndexError, x509.ExtensionNotFound):
        return None
    public = (
        serialization.Encoding.DER,
        serialization.PublicFormat.SubjectPublicKeyInfo,
    )
    if key.public_key().public_bytes(*public) != certificate.public_key().public_bytes(
        *public
    ):
        return None
    return CertificateFile(
        domains=frozenset(names.value.get_values_for_type(x509.DNSName)),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
    )


def is_due(
    held: CertificateFile | None, domains: tuple[str, ...], now: dt.datetime, lot: float
) -> bool:
    """Tell whether a certificate is to be fetched; `lot`: 0 to 1, this process's."""
    if held is None or held.domains != frozenset(domains):
        return True
    life = held.not_after - held.not_before
    return now >= held.not_before + life * (_SHARE_OF_LIFE - _SPREAD * lot)


def retry_after_s(n_failures: int, lot: float) -> float:
    """Return how long to wait after so many failures in a row; `lot`: 0 to 1."""
    doubled = _FIRST_RETRY_S * 2.0 ** min(n_failures - 1, 16)
    return min(doubled, _MAX_RETRY_S) * (0.8 + 0.4 * lot)
