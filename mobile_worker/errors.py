"""All errors of this package, in one tree.

    WorkerError                  advice, exit_code: what the command line prints
      LocalError                 ours: our caller or our configuration broke a rule
        UnsendableMessage        a message that the wire format cannot carry
        SendQueueFull            the bounded queue towards a peer is full
        IdentityError            the key file cannot be used
          IdentityInUse          another process runs with the same key
        ListenError              the address for direct links cannot be opened
        LanUnavailable           the local network cannot be searched for peers
        NodeClosed               the node is gone
      RemoteError                theirs: a peer did; carries the peer where known
        MessageError             bytes that are no message
        RecordError              a peer record or network descriptor that is none
        HandshakeError           a handshake that proves nothing
        SealError                a packet that does not open: wrong key, replay, bits
        ProtocolBreach           an authenticated peer broke a rule of the session
        LinkLost                 a link ended

A parser raises only its own error. None of the remote ones ever ends the node.
"""

from relay.keys import PeerId

__all__ = [
    "HandshakeError",
    "IdentityError",
    "IdentityInUse",
    "LanUnavailable",
    "LinkLost",
    "ListenError",
    "LocalError",
    "MessageError",
    "NodeClosed",
    "ProtocolBreach",
    "RecordError",
    "RemoteError",
    "SealError",
    "SendQueueFull",
    "UnsendableMessage",
    "WorkerError",
]


class WorkerError(Exception):
    """Base of all errors of this package."""

    advice: str = ""
    exit_code: int = 2

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        super().__init__(message)
        if advice is not None:
            self.advice = advice


class LocalError(WorkerError):
    """Our caller or our configuration broke a rule."""


class UnsendableMessage(LocalError):
    """A message holds a value that the wire format cannot carry."""


class SendQueueFull(LocalError):
    """The bounded queue towards a peer has no room for this message."""


class IdentityError(LocalError):
    """The key file cannot be read, written or trusted."""


class IdentityInUse(IdentityError):
    """Another process runs with the same key file."""


class ListenError(LocalError):
    """The address for direct links cannot be parsed or opened."""


class LanUnavailable(LocalError):
    """The local network cannot be searched for peers: a package is missing."""

    advice = "pip install 'p2pmoe[lan]', or go on without --lan"


class NodeClosed(LocalError):
    """The node has been closed."""


class RemoteError(WorkerError):
    """A peer broke a rule; `peer` is None where the parser cannot know it."""

    def __init__(
        self, message: str, *, advice: str | None = None, peer: PeerId | None = None
    ) -> None:
        super().__init__(message, advice=advice)
        self.peer = peer


class MessageError(RemoteError):
    """Bytes that are no message of this protocol."""


class RecordError(RemoteError):
    """Bytes that are no valid peer record or network descriptor."""


class HandshakeError(RemoteError):
    """A handshake message that is malformed or proves the wrong thing."""


class SealError(RemoteError):
    """A packet that does not open: wrong key, replayed, too old or changed."""


class ProtocolBreach(RemoteError):
    """An authenticated peer broke a rule of the session: its link is closed."""


class LinkLost(RemoteError):
    """A link to a peer ended."""
