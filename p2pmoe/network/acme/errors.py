"""What can go wrong with a certificate by ACME.

AcmeFailed(ConfigurationError)   the authority gave no certificate; says why
"""

from p2pmoe.errors import ConfigurationError

__all__ = ["AcmeFailed"]


class AcmeFailed(ConfigurationError):
    """No certificate came from the authority."""

    advice = "try it with the authority's test server first, by --acme-server"
