"""What `p2pmoe relay --acme` was asked for, checked before anything is opened."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from p2pmoe.errors import ConfigurationError
from relay.endpoint import is_loopback

__all__ = ["LETS_ENCRYPT", "AcmeSettings"]

LETS_ENCRYPT: Final = "https://acme-v02.api.letsencrypt.org/directory"
_MAX_DOMAINS: Final = 20
_LABEL: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DOMAIN: Final = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AcmeSettings:
    """Names for one certificate, the authority, and where its questions arrive.

    email: where the authority writes to, or "". server: its directory's URL. host None:
    all addresses. ca_file: PEM of an authority that signs the server's own certificate,
    in place of the system's.

    Raises:
        ConfigurationError: a name or URL that no authority could take.
    """

    domains: tuple[str, ...]
    email: str = ""
    server: str = LETS_ENCRYPT
    host: str | None = None
    port: int = 80
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work, naming the option."""
        if not 1 <= len(self.domains) <= _MAX_DOMAINS:
            raise ConfigurationError(
                f"--acme was given {len(self.domains)} names",
                advice=f"name 1 to {_MAX_DOMAINS}",
            )
        for domain in self.domains:
            if _DOMAIN.fullmatch(domain) is None or _is_address(domain):
                raise ConfigurationError(
                    f"--acme {domain[:80]!r} is no domain name",
                    advice="name the domain that leads to this host, "
                    "or use --self-signed on one without",
                )
        if self.email and not _is_email(self.email):
            raise ConfigurationError(
                f"--acme-email {self.email[:80]!r} is no address",
                advice="write it as you@your.domain, or leave it out",
            )
        _check_server(self.server)

    @property
    def server_folder(self) -> str:
        """A folder name of the authority: its files are no other's."""
        parts = urlsplit(self.server)
        return re.sub(r"[^a-z0-9.-]", "_", parts.netloc.lower())


def _is_address(domain: str) -> bool:
    return domain.rpartition(".")[2].isdigit()


def _is_email(text: str) -> bool:
    name, at, domain = text.rpartition("@")
    plain = text.isascii() and text.isprintable() and not set(text) & set(' ,;:<>"\\')
    return bool(name and at and domain) and plain and len(text) <= 254


def _check_server(url: str) -> None:
    parts = urlsplit(url)
    safe = parts.scheme == "https" or (
        parts.scheme == "http" and is_loopback(parts.hostname or "")
    )
    if not safe or not parts.hostname or parts.username or not url.isprintable():
        raise ConfigurationError(
            f"--acme-server {url[:120]!r} is no https:// URL",
            advice="name the directory of an authority, as its documentation has it",
        )
