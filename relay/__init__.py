"""The relay: a WebSocket meeting point that forwards sealed frames between peers.

Errors, keys, tokens and addresses are imported with it; frames, client and server,
which load an event loop, TLS and WebSockets, when they are first named here: a service
without a network uses none of them.
"""

import importlib
from typing import TYPE_CHECKING

from relay.backoff import Backoff
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
from relay.tokens import NetworkToken, RateClass, Role, encode_token, parse_token

if TYPE_CHECKING:
    from relay.client import ClientSettings, RelayConnection, connect
    from relay.config import RelayConfig
    from relay.events import (
        Event,
        Nacked,
        PeerGone,
        PeerPresence,
        Received,
        RelayLimits,
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
    from relay.listening import split_address
    from relay.pages import PageHandler, PageRequest, PageResponse
    from relay.server import RunningRelay, serve
    from relay.tls import SelfSigned, TlsFiles

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
    "RelayLimits",
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

# Name -> the module that has it.
_LATER = {
    "ClientSettings": "relay.client",
    "Credentials": "relay.handshake",
    "Event": "relay.events",
    "FrameClass": "relay.frame_types",
    "GoneReason": "relay.frame_types",
    "Limits": "relay.frame_types",
    "NackReason": "relay.frame_types",
    "Nacked": "relay.events",
    "PageHandler": "relay.pages",
    "PageRequest": "relay.pages",
    "PageResponse": "relay.pages",
    "PeerGone": "relay.events",
    "PeerPresence": "relay.events",
    "PresenceState": "relay.frame_types",
    "Received": "relay.events",
    "RelayConfig": "relay.config",
    "RelayConnection": "relay.client",
    "RelayLimits": "relay.events",
    "RelayRestarting": "relay.events",
    "RelayStatus": "relay.events",
    "RunningRelay": "relay.server",
    "SelfSigned": "relay.tls",
    "StatusCode": "relay.frame_types",
    "TlsFiles": "relay.tls",
    "Welcome": "relay.greetings",
    "connect": "relay.client",
    "serve": "relay.server",
    "split_address": "relay.listening",
}


def __getattr__(name: str) -> object:
    """Import what is named for the first time."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = found
    return found
