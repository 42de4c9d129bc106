"""What replies become: weights, and what is known of links."""

import pytest

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch.checking import ShardChecker
from p2pmoe.backbone.prefetch.fetch_work import Came, Lack, Lacking, Wanted
from p2pmoe.backbone.prefetch.figures import PrefetchFigures
from p2pmoe.backbone.prefetch.link_rates import LinkRates
from p2pmoe.backbone.prefetch.taking import Taking
from tests.support.backbone import peer_id
from tests.support.prefetch_rig import MODEL, SIZES

HONEST, OTHER = peer_id(1), peer_id(2)
ONE, TWO = ExpertId(1, 0), ExpertId(2, 1)
RTTS = {HONEST: 0.1, OTHER: 0.1}
WANTED = (Wanted(expert=ONE, peer=HONEST), Wanted(expert=TWO, peer=OTHER))


def taking() -> Taking:
    return Taking(WANTED, 50.0, SIZES, ShardChecker(MODEL.manifest))


def came(wanted: Wanted, at: float, shard: bytes | None = None) -> Came:
    body = MODEL.shards[wanted.expert] if shard is None else shard
    return Came(wanted=wanted, shard=memoryview(body), at=at)


def test_what_came_whole_measures_its_link() -> None:
    one, rates, figures = taking(), LinkRates(), PrefetchFigures()
    taken = one.take(came(WANTED[0], 50.3))
    assert taken is not None
    assert taken[0] == ONE
    assert one.take(came(WANTED[1], 51.1)) is not None
    assert (one.n_open, one.came_bytes) == (0, SIZES[ONE] + SIZES[TWO])
    assert one.seconds == pytest.approx(1.1)
    one.settle(rates, RTTS, 52.0)
    one.count(figures)
    first, second = (rates.source(peer, 0.1, 52.0) for peer in (HONEST, OTHER))
    assert first is not None
    assert second is not None
    assert first.per_byte_s == pytest.approx(0.2 / SIZES[ONE])
    assert second.per_byte_s == pytest.approx(1.0 / SIZES[TWO])
    assert figures.n_bytes == one.came_bytes
    assert not one.lacks


def test_other_bytes_end_all_business_with_their_sender_alone() -> None:
    one, rates = taking(), LinkRates()
    assert one.take(came(WANTED[0], 50.3, bytes(SIZES[ONE]))) is None
    assert one.take(came(WANTED[1], 50.4)) is not None
    one.settle(rates, RTTS, 52.0)
    assert rates.source(HONEST, 0.1, 1e9) is None
    assert rates.source(OTHER, 0.1, 52.0) is not None
    assert one.lacks == {Lack.WRONG: 1}


def test_what_never_comes_is_late_and_its_worker_rests() -> None:
    one, rates, figures = taking(), LinkRates(), PrefetchFigures()
    one.take(Lacking(wanted=WANTED[0], why=Lack.BUSY))
    one.settle(rates, RTTS, 52.0)
    one.count(figures)
    assert rates.source(HONEST, 0.1, 52.0) is None
    assert rates.source(OTHER, 0.1, 52.0) is None
    assert rates.source(OTHER, 0.1, 53.1) is not None
    assert (figures.lacks[Lack.BUSY], figures.lacks[Lack.LATE]) == (1, 1)
