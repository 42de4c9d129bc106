"""End-to-end messages between peers; no I/O."""

from mobile_worker.messages.accounts import (
    Countersign,
    File,
    Filed,
    Grant,
    GrantRequest,
    Voucher,
)
from mobile_worker.messages.blobs import MAX_PIECE_BYTES, Blob, BlobError, Get
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.codec import Message, encode_message, parse_message
from mobile_worker.messages.envelope import MAX_MESSAGE_BYTES, MessageType
from mobile_worker.messages.market import (
    Demand,
    Held,
    Holder,
    Lease,
    ManifestNotice,
    Offer,
    Placement,
    Refused,
    Release,
    Renew,
)
from mobile_worker.messages.membership import (
    PROTOCOL_VERSION,
    Busy,
    Cancel,
    Draining,
    Hello,
)
from mobile_worker.messages.serving import (
    MAX_ROWS,
    Accept,
    CodedTensor,
    Dispatch,
    ExpertCall,
    Output,
    OutputError,
)

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MAX_PIECE_BYTES",
    "MAX_ROWS",
    "PROTOCOL_VERSION",
    "Accept",
    "Blob",
    "BlobError",
    "Busy",
    "Cancel",
    "CodedTensor",
    "Countersign",
    "Demand",
    "Dispatch",
    "Draining",
    "ExpertCall",
    "File",
    "Filed",
    "Get",
    "Grant",
    "GrantRequest",
    "Held",
    "Hello",
    "Holder",
    "Lease",
    "ManifestNotice",
    "Message",
    "MessageClass",
    "MessageType",
    "Offer",
    "Output",
    "OutputError",
    "Placement",
    "Refused",
    "Release",
    "Renew",
    "Voucher",
    "encode_message",
    "parse_message",
]
