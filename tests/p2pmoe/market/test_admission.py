import pytest

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.admission import admit_backbone, admit_offer
from p2pmoe.market.errors import NoticeRefused, OfferRefused
from relay.tokens import Role
from tests.support.market_peers import (
    SELF_TEST,
    identity_of,
    make_manifest,
    notice_of,
    offer_of,
)

WORKER, BACKBONE = identity_of("worker"), identity_of("backbone")


def admit(offer, sender=WORKER, now_us=0):
    return admit_offer(offer, sender.peer_id, now_us=now_us, self_test=SELF_TEST)


def test_a_good_offer_passes() -> None:
    admitted = admit(offer_of(WORKER, 3, device_class=0))
    assert admitted.device_class is DeviceClass.HUB
    assert admitted.record.peer_id == WORKER.peer_id
    assert admitted.memory_bytes == 900


@pytest.mark.parametrize(
    ("offer", "reason"),
    [
        (offer_of(WORKER, 3, self_test=bytes(32)), "self-test digest 0000"),
        (offer_of(WORKER, 3, role=Role.BACKBONE), "a backbone holds no experts"),
        (offer_of(identity_of("other"), 3), "the peer record is of"),
        (offer_of(WORKER, 3, device_class=9), "unknown device class 9"),
        (offer_of(WORKER, 3, memory_bytes=1 << 62), "memory_bytes"),
        (offer_of(WORKER, 3, record=b"nonsense"), "peer record"),
    ],
)
def test_each_fault_of_an_offer_is_named(offer, reason: str) -> None:
    with pytest.raises(OfferRefused, match=reason):
        admit(offer)


def test_one_bit_of_the_self_test_is_enough() -> None:
    digest = bytes([SELF_TEST[0] ^ 1, *SELF_TEST[1:]])
    with pytest.raises(OfferRefused, match="computes other bits"):
        admit(offer_of(WORKER, 3, self_test=digest))


def test_a_record_out_of_date_is_refused() -> None:
    with pytest.raises(OfferRefused, match="out of date"):
        admit(offer_of(WORKER, 1), now_us=1 << 63)


def test_a_good_notice_passes() -> None:
    record = admit_backbone(notice_of(BACKBONE, make_manifest()), BACKBONE.peer_id)
    assert record.role is Role.BACKBONE


def test_a_notice_of_someone_else_is_refused() -> None:
    notice = notice_of(BACKBONE, make_manifest())
    with pytest.raises(NoticeRefused, match="the peer record is of"):
        admit_backbone(notice, WORKER.peer_id)
