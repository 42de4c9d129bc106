"""Identity, peer records, Noise sessions; no I/O."""

from mobile_worker.session.descriptor import (
    NetworkDescriptor,
    parse_descriptor,
    sign_descriptor,
)
from mobile_worker.session.identity import Identity, load_or_create
from mobile_worker.session.records import PeerRecord, parse_record, sign_record

__all__ = [
    "Identity",
    "NetworkDescriptor",
    "PeerRecord",
    "load_or_create",
    "parse_descriptor",
    "parse_record",
    "sign_descriptor",
    "sign_record",
]
