"""The numbers of the relay, each in one place. Seconds, bytes, counts.

Source: the relay's design page; what a number protects is said beside it.
"""

from typing import Final

__all__ = [
    "AUTH_TIMEOUT_S",
    "BATCH_BYTES",
    "CLOSE_TIMEOUT_S",
    "CONTROL_QUEUE_BYTES",
    "DEFAULT_TTL_MS",
    "DIAL_TIMEOUT_S",
    "DRAIN_S",
    "HTTP_TIMEOUT_S",
    "MAX_HANDSHAKES",
    "MAX_MESSAGE_BYTES",
    "MAX_PAGES",
    "MAX_TTL_MS",
    "PAGE_TIMEOUT_S",
    "PARKED_S",
    "PING_INTERVAL_S",
    "PING_JITTER_S",
    "PING_TIMEOUT_S",
    "QUEUE_BYTES",
    "READ_BYTES",
    "RECENT_CONTACT_S",
    "SLOW_CONSUMER_S",
    "SUBPROTOCOL",
    "SUSPEND_JUMP_S",
    "TCP_USER_TIMEOUT_MS",
    "WRITE_STALL_S",
]

SUBPROTOCOL: Final = "p2pmoe-relay.v1"

# A message is one frame: 40 B header and 65,535 B payload; the rest is room for NACK 5.
MAX_MESSAGE_BYTES: Final = 72 * 1024
# One read, and one write, of a connection's task.
READ_BYTES: Final = 64 * 1024
BATCH_BYTES: Final = 64 * 1024

# Deadlines of opening: a connection that dawdles is closed.
DIAL_TIMEOUT_S: Final = 10.0
HTTP_TIMEOUT_S: Final = 5.0
AUTH_TIMEOUT_S: Final = 5.0
MAX_HANDSHAKES: Final = 64
# A page or shard that somebody downloads, and how many at once.
PAGE_TIMEOUT_S: Final = 300.0
MAX_PAGES: Final = 64

# Life: any byte counts. A silent peer is lost after at most 15 + 3 + 5 s.
PING_INTERVAL_S: Final = 15.0
PING_JITTER_S: Final = 3.0
PING_TIMEOUT_S: Final = 5.0
TCP_USER_TIMEOUT_MS: Final = 15_000
# Wall clock against monotonic clock: more than this apart means the host slept.
SUSPEND_JUMP_S: Final = 30.0

# A write that makes no progress for so long ends the connection.
WRITE_STALL_S: Final = 2.0
# One that moves, but takes longer than this for a batch while more waits, does too.
SLOW_CONSUMER_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 1.0
MAX_REASON_BYTES: Final = 120  # of a close frame, which holds 123
DRAIN_S: Final = 2.0

# Queues at a destination, for each class of frames.
CONTROL_QUEUE_BYTES: Final = 64 * 1024
QUEUE_BYTES: Final = 256 * 1024
DEFAULT_TTL_MS: Final = 2_000
MAX_TTL_MS: Final = 60_000

# How long an older connection of the same id is kept, and a contact remembered.
PARKED_S: Final = 10.0
RECENT_CONTACT_S: Final = 60.0
