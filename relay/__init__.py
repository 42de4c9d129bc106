"""The relay: a WebSocket meeting point that forwards sealed frames between peers."""

from relay.backoff import Backoff
from relay.client import ClientSettings, RelayConnection, connect
from relay.config import RelayConfig
from relay.endpoint import Endpoint, parse_endpoint
from relay.errors import (
    CertificateError,
    CertificateRefused,
    ConfigError,
    ConnectionLost,
    HandshakeRefused,
    KeyFileError,
    ListenError,
    PayloadTooLarge,
    PlaintextRefused,
    ProtocolError,
    RelayBusy,
    RelayError,
    RelayUnreachable,
    SendQueueFull,
    TokenRefused,
    WeakKey,
    WrongRelayId,
)
from relay.events import (
    Event,
    Nacked,
    PeerGone,
    PeerPresence,
    Received,
    RelayRestarting,
    RelayStatus,
)
from relay.frame_types import (
    FrameClass,
    GoneReason,
    Limits,
    NackReason,
    PresenceState,
    StatusCode,
)
from relay.greetings import Welcome
from relay.handshake import Credentials
from relay.keys import (
    PeerId,
    SigningKey,
    check_peer_id,
    load_key,
    load_or_create_key,
    peer_id_from_hex,
    short_id,
    verify,
)
from relay.listening import split_address
from relay.pages import PageHandler, PageRequest, PageResponse
from relay.server import RunningRelay, serve
from relay.tls import SelfSigned, TlsFiles
from relay.tokens import NetworkToken, RateClass, Role, encode_token, parse_token

__all__ = [
    "Backoff",
    "CertificateError",
    "CertificateRefused",
    "ClientSettings",
    "ConfigError",
    "ConnectionLost",
    "Credentials",
    "Endpoint",
    "Event",
    "FrameClass",
    "GoneReason",
    "HandshakeRefused",
    "KeyFileError",
    "Limits",
    "ListenError",
    "NackReason",
    "Nacked",
    "NetworkToken",
    "PageHandler",
    "PageRequest",
    "PageResponse",
    "PayloadTooLarge",
    "PeerGone",
    "PeerId",
    "PeerPresence",
    "PlaintextRefused",
    "PresenceState",
    "ProtocolError",
    "RateClass",
    "Received",
    "RelayBusy",
    "RelayConfig",
    "RelayConnection",
    "RelayError",
    "RelayRestarting",
    "RelayStatus",
    "RelayUnreachable",
    "Role",
    "RunningRelay",
    "SelfSigned",
    "SendQueueFull",
    "SigningKey",
    "StatusCode",
    "TlsFiles",
    "TokenRefused",
    "WeakKey",
    "Welcome",
    "WrongRelayId",
    "check_peer_id",
    "connect",
    "encode_token",
    "load_key",
    "load_or_create_key",
    "parse_endpoint",
    "parse_token",
    "peer_id_from_hex",
    "serve",
    "short_id",
    "split_address",
    "verify",
]
