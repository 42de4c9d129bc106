"""Leases in force: replaced, renewed, doubted, lapsed."""

from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.messages.market import Held, Renew
from tests.support.lease_messages import BACKBONE, MODEL, OTHER, E, lease


def test_a_lease_replaces_the_one_before_and_keeps_what_is_held() -> None:
    book = LeaseBook()
    book.take(lease(0, 1, 2), 0.0)
    assert [want.expert for want in book.wants()] == E[:3]
    book.now_held(MODEL, E[1])
    book.now_held(MODEL, E[2])
    book.take(lease(2, 3), 1.0)
    assert [want.expert for want in book.wants()] == [E[3]]
    assert book.experts_of(MODEL) == {E[2], E[3]}
    assert not book.is_wanted(MODEL, E[1])
    book.take(lease(2, 3, manifest_hash=b"n" * 32), 2.0)
    assert len(book.wants()) == 2
    assert book.experts_of(MODEL) == frozenset()


def test_an_expert_of_two_leases_is_wanted_once_and_held_for_both() -> None:
    book = LeaseBook()
    book.take(lease(0, 1), 0.0)
    book.take(lease(1, 2, name=b"lease-02", backbone=OTHER), 0.0)
    assert [want.expert for want in book.wants()] == E[:3]
    book.now_held(MODEL, E[1])
    assert book.backbones == {BACKBONE, OTHER}
    assert book.holds_for(OTHER, MODEL)
    assert not book.holds_for(OTHER, b"n" * 32)
    reports = {held.lease: held.experts for held in book.reports()}
    assert reports == {b"lease-01": (E[1],), b"lease-02": (E[1],)}


def test_held_is_reported_whole_when_it_grows_or_again() -> None:
    book = LeaseBook()
    book.take(lease(0, 1), 0.0)
    assert book.reports() == []
    book.now_held(MODEL, E[1])
    assert book.reports() == [Held(lease=b"lease-01", experts=(E[1],))]
    assert book.reports() == []
    book.now_held(MODEL, E[0])
    assert book.reports() == [Held(lease=b"lease-01", experts=(E[0], E[1]))]
    book.forget_reports()
    assert book.reports() == [Held(lease=b"lease-01", experts=(E[0], E[1]))]
    book.take(lease(0, 1), 5.0)
    assert len(book.reports()) == 1


def test_renewed_at_three_quarters_and_said_twice() -> None:
    book = LeaseBook()
    book.take(lease(0), 0.0)
    sent = [at for at in range(100) if book.renewals(float(at))]
    assert sent == [30, 35, 60, 65, 90, 95]
    assert book.lapse(100.0) == []
    assert len(book.renewals(120.0)) == 1
    assert len(book) == 1


def test_without_renewal_it_lapses() -> None:
    book = LeaseBook()
    book.take(lease(0), 0.0)
    assert book.lapse(39.9) == []
    (gone,) = book.lapse(40.0)
    assert gone.lease == b"lease-01"
    assert len(book) == 0
    assert book.wants() == []
    assert book.renewals(40.0) == []


def test_a_prolonged_lease_is_renewed_as_soon_as_that_is_possible() -> None:
    book = LeaseBook()
    book.take(lease(0), 0.0)
    for at in range(10, 200, 10):
        book.prolong(float(at))
        assert book.lapse(float(at)) == []
    assert book.renewals(191.0) == [Renew(lease=b"lease-01")]
    assert book.renewals(192.0) == []


def test_a_doubted_lease_lapses_unless_confirmed() -> None:
    book = LeaseBook()
    book.take(lease(0), 0.0)
    book.take(lease(1, name=b"lease-02"), 0.0)
    book.renewals(30.0)
    book.doubt(31.0)
    assert book.renewals(39.0) == []
    book.take(lease(0), 35.0)
    assert [gone.lease for gone in book.lapse(41.0)] == [b"lease-02"]
    assert book.renewals(65.0) == [Renew(lease=b"lease-01")]


def test_a_doubted_lease_is_not_reported_until_a_lease_replaces_it() -> None:
    book = LeaseBook()
    book.take(lease(0), 0.0)
    book.now_held(MODEL, E[0])
    book.doubt(1.0)
    book.forget_reports()
    assert book.reports() == []
    book.take(lease(0), 2.0)
    assert book.reports() == [Held(lease=b"lease-01", experts=(E[0],))]


def test_releasing_some_or_all() -> None:
    book = LeaseBook()
    book.take(lease(0, 1, 2), 0.0)
    book.now_held(MODEL, E[0])
    book.release(b"lease-01", [E[0], E[7]])
    assert book.experts_of(MODEL) == {E[1], E[2]}
    assert book.reports() == []
    book.release(b"lease-99", [])
    book.release(b"lease-01", [])
    assert len(book) == 0
    book.take(lease(0), 0.0)
    book.drop_all()
    assert book.manifests() == frozenset()
