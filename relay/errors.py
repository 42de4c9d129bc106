"""Everything that can go wrong at a relay, as one tree.

    RelayError
      LocalRelayError        our caller broke a rule, or this host does not allow it
        KeyFileError, WeakKey, EndpointError, PlaintextRefused, ListenError,
        CertificateError, ConfigError, ProxySettingError, SendQueueFull, FrameRefused,
        PayloadTooLarge
      RemoteRelayError       the other side did; carries its address or id in `peer`
        RelayUnreachable     nobody answers there, or what answers is no relay
          ProxyRefused         the HTTP proxy on the way says no
        CertificateRefused   no authority vouches for its certificate
        WrongRelayId         it answers, but is not the pinned relay
        HandshakeRefused     it said no; `code` says why
          TokenRefused         because of the network token
          RelayBusy            try again after `retry_s`
        KnockRefused         at the relay: a connection that gets no further; `cause`
        ConnectionLost       an open connection ended; `reason` says how
        ProtocolError        a frame that breaks the format; the only error of a parser

Each carries `advice`, one sentence for a person, and `exit_code` for the command line,
which prints `error: MESSAGE. ADVICE` on one line.
"""

from typing import ClassVar

__all__ = [
    "CertificateError",
    "CertificateRefused",
    "ConfigError",
    "ConnectionLost",
    "EndpointError",
    "FrameRefused",
    "HandshakeRefused",
    "KeyFileError",
    "KnockRefused",
    "ListenError",
    "LocalRelayError",
    "PayloadTooLarge",
    "PlaintextRefused",
    "ProtocolError",
    "ProxyRefused",
    "ProxySettingError",
    "RelayBusy",
    "RelayError",
    "RelayUnreachable",
    "RemoteRelayError",
    "SendQueueFull",
    "TokenRefused",
    "WeakKey",
    "WrongRelayId",
]


class RelayError(Exception):
    """Root of this package's errors."""

    advice: str = ""
    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        if advice:
            self.advice = advice


class LocalRelayError(RelayError):
    """Our side broke a rule, or this host does not allow what was asked."""


class KeyFileError(LocalRelayError):
    """A key file cannot be read or written, or holds no key."""

    advice = "name another key file, or make the folder writable"


class WeakKey(LocalRelayError):
    """These bytes are no acceptable Ed25519 public key."""

    advice = "the id must be copied whole from its owner's own output"


class EndpointError(LocalRelayError):
    """A relay URL cannot be understood."""

    advice = "write it as wss://HOST:PORT/relay#RELAY_ID"


class PlaintextRefused(LocalRelayError):
    """A ws:// URL: there is no unencrypted mode towards a relay."""

    advice = "use the wss:// URL that the relay prints when it starts"


class ListenError(LocalRelayError):
    """The relay cannot listen where it was told to."""


class CertificateError(LocalRelayError):
    """The certificate or its key cannot be used."""

    advice = "give --cert and --key in PEM form, or use --self-signed"


class ConfigError(LocalRelayError):
    """Settings that contradict each other or are out of range."""


class ProxySettingError(LocalRelayError):
    """HTTPS_PROXY or ALL_PROXY names no HTTP proxy; the variable is never quoted."""

    advice = (
        "write it as http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, with / @ : # "
        "and % of user and password as %2F and so on"
    )


class SendQueueFull(LocalRelayError):
    """The connection's own send queue is full: nothing was queued."""

    advice = "wait until the connection is writable again"


class FrameRefused(LocalRelayError):
    """A frame whose fields are out of range."""


class PayloadTooLarge(LocalRelayError):
    """A payload above what the relay takes in one frame."""

    advice = "cut the message into pieces"


class RemoteRelayError(RelayError):
    """The other side broke a rule, refused, or went away."""

    def __init__(self, message: str, *, advice: str = "", peer: str = "") -> None:
        super().__init__(message, advice=advice)
        self.peer = peer


class RelayUnreachable(RemoteRelayError):
    """Nobody answers at this address, or what answers is no relay."""

    advice = "check the URL, that the relay runs, and the firewall between"


class ProxyRefused(RelayUnreachable):
    """The HTTP proxy on the way to the relay says no; `status` is its HTTP status."""

    def __init__(
        self, message: str, *, advice: str = "", peer: str = "", status: int = 0
    ) -> None:
        super().__init__(message, advice=advice, peer=peer)
        self.status = status


class CertificateRefused(RemoteRelayError):
    """No authority that we trust vouches for the relay's certificate."""

    advice = (
        "use the network's invite, which names the relay's id; if the authority is "
        "your own, or a proxy here inspects TLS, name the authority's file with --ca"
    )


class WrongRelayId(RemoteRelayError):
    """What answers is not the relay whose id is pinned in the URL."""

    advice = "take the URL anew from the relay's operator"


class HandshakeRefused(RemoteRelayError):
    """The relay denied the connection."""

    def __init__(
        self, message: str, *, advice: str = "", peer: str = "", code: int = 0
    ) -> None:
        super().__init__(message, advice=advice, peer=peer)
        self.code = code


class TokenRefused(HandshakeRefused):
    """The relay did not accept the network token."""

    advice = "ask the network's operator for a token"


class RelayBusy(HandshakeRefused):
    """The relay takes no further connections at present."""

    advice = "it is retried by itself"

    def __init__(
        self, message: str, *, retry_s: float, peer: str = "", code: int = 0
    ) -> None:
        super().__init__(message, peer=peer, code=code)
        self.retry_s = retry_s


class KnockRefused(RemoteRelayError):
    """A connection that gets no further at our relay, counted under `cause`."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(detail or cause)
        self.cause = cause


class ConnectionLost(RemoteRelayError):
    """An open connection to the relay ended."""

    advice = "the connection is made again by itself"

    def __init__(self, reason: str, *, peer: str = "") -> None:
        super().__init__(f"connection to the relay lost: {reason}", peer=peer)
        self.reason = reason


class ProtocolError(RemoteRelayError):
    """A frame that breaks the format: the connection is closed with `close_code`."""

    advice = "both sides must run compatible versions"

    def __init__(self, message: str, *, peer: str = "", close_code: int = 1008) -> None:
        super().__init__(message, peer=peer)
        self.close_code = close_code
