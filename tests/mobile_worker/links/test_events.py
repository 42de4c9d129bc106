"""Events are plain values with reasons that people can read."""

from mobile_worker.links.events import (
    LostReason,
    PathKind,
    PeerLost,
    Undelivered,
    UndeliveredReason,
)


def test_they_compare_by_value():
    peer = bytes(32)
    assert PeerLost(peer, LostReason.GONE) == PeerLost(peer, LostReason.GONE)
    assert Undelivered(peer, UndeliveredReason.LOST).count == 1


def test_reasons_read_as_words():
    for reasons in (LostReason, UndeliveredReason, PathKind):
        assert all(str(reason).replace(" ", "").isalpha() for reason in reasons)
