"""LEASE messages for tests."""

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.market import Lease
from relay.keys import PeerId

__all__ = ["BACKBONE", "MODEL", "OTHER", "E", "lease"]

BACKBONE, OTHER = PeerId(b"b" * 32), PeerId(b"o" * 32)
MODEL = b"m" * 32
E = [ExpertId(1, index) for index in range(8)]


def lease(*experts: int, name: bytes = b"lease-01", **changes: object) -> Lease:
    """Return a LEASE of the experts E[index]."""
    values: dict[str, object] = {
        "lease": name,
        "backbone": BACKBONE,
        "backbone_record": b"",
        "manifest_hash": MODEL,
        "experts": tuple(E[index] for index in experts),
        "price_table": b"",
        "price_signature": bytes(64),
        "expires_in_s": 40,
    }
    return Lease(**(values | changes))
