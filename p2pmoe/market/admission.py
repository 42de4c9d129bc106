"""Who may take part: the checks of an offer and of a manifest before anything else.

An offer passes if its record is the sender's own, its claims lie within sane bounds
(B15), and its arithmetic gave the very self-test digest that everyone's must give: one
different bit and the worker is refused, with the reason.

Pure; raises only `OfferRefused` and `NoticeRefused`, whose text goes to the sender.
"""

from dataclasses import dataclass

from mobile_worker.device_class import DeviceClass
from mobile_worker.errors import RecordError
from mobile_worker.messages.market import ManifestNotice, Offer
from mobile_worker.session.records import PeerRecord, parse_record
from p2pmoe.market.devices import Capacity, check_capacity
from p2pmoe.market.errors import NoticeRefused, OfferRefused
from relay.keys import PeerId, short_id
from relay.tokens import Role

__all__ = ["Admitted", "admit_backbone", "admit_offer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """A worker's offer that has passed every check."""

    record: PeerRecord
    device_class: DeviceClass
    domain: str
    memory_bytes: int
    models: frozenset[bytes]  # manifest hashes it accepts; empty: any


def admit_offer(
    offer: Offer, sender: PeerId, *, now_us: int, self_test: bytes | None
) -> Admitted:
    """Return the offer, checked. `self_test` None accepts any arithmetic.

    Raises:
        OfferRefused: with the reason to tell the sender.
    """
    try:
        record = parse_record(offer.record)
    except RecordError as exc:
        raise OfferRefused(f"peer record: {exc}") from exc
    if record.peer_id != sender:
        raise OfferRefused(f"the peer record is of {short_id(record.peer_id)}")
    if 0 < record.not_after_us < now_us:
        raise OfferRefused("the peer record is out of date")
    if record.role not in (Role.WORKER, Role.HUB):
        raise OfferRefused(f"a {record.role.name.lower()} holds no experts")
    if self_test is not None and record.self_test != self_test:
        raise OfferRefused(
            f"self-test digest {record.self_test.hex()[:16]} differs from "
            f"{self_test.hex()[:16]}: this device computes other bits"
        )
    device_class = check_capacity(
        Capacity(
            memory_bytes=offer.memory_bytes,
            disk_bytes=offer.disk_bytes,
            rate_macs_s=offer.rate_macs_s,
            up_bytes_s=offer.up_bytes_s,
            down_bytes_s=offer.down_bytes_s,
            device_class=offer.device_class,
            domain=offer.domain,
        )
    )
    return Admitted(
        record=record,
        device_class=device_class,
        domain=offer.domain,
        memory_bytes=offer.memory_bytes,
        models=frozenset(offer.models),
    )


def admit_backbone(notice: ManifestNotice, sender: PeerId) -> PeerRecord:
    """Return the record of a backbone that lists a model, checked.

    Raises:
        NoticeRefused: with the reason to tell the sender.
    """
    try:
        record = parse_record(notice.backbone_record)
    except RecordError as exc:
        raise NoticeRefused(f"peer record: {exc}") from exc
    if record.peer_id != sender:
        raise NoticeRefused(f"the peer record is of {short_id(record.peer_id)}")
    if record.role is not Role.BACKBONE:
        raise NoticeRefused(f"a {record.role.name.lower()} serves no model")
    return record
