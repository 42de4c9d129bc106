"""What weights take by each link: measured, trusted by and by, left when wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.prefetch import link_rates
from p2pmoe.backbone.prefetch.link_rates import LinkRates
from tests.support.backbone import peer_id

PEER = peer_id(1)
RTT_S = 0.1


def rates_after(*fetches: tuple[int, float]) -> LinkRates:
    rates = LinkRates()
    for n_bytes, seconds in fetches:
        rates.took(PEER, n_bytes, seconds, RTT_S)
    return rates


def test_nobody_waits_for_a_link_that_was_never_measured() -> None:
    rates = LinkRates()
    assert rates.source(PEER, RTT_S, 0.0) is None
    assert rates.is_due(PEER, 0.0)
    rates.probing(PEER, 0.0)
    assert not rates.is_due(PEER, 1.0)
    assert rates.is_due(PEER, 2.0)
    rates.took(PEER, 100_000, RTT_S + 0.01, RTT_S)
    source = rates.source(PEER, RTT_S, 3.0)
    assert source is not None
    assert source.per_byte_s == pytest.approx(1e-7)
    assert source.most_bytes == 1_600_000


def test_a_trip_is_known_where_nothing_is_dispatched_any_more() -> None:
    rates = LinkRates()
    assert rates.rtt_s(PEER, 0.03) == 0.03
    for seconds in (0.1, 0.1, float("nan"), -1.0):
        rates.answered(PEER, seconds)
    assert rates.rtt_s(PEER, 0.03) == pytest.approx(0.08)
    assert rates.rtt_s(PEER, 0.09) == 0.09
    rates.took(PEER, 1000, 0.2, RTT_S)
    source = rates.source(PEER, 0.0, 0.0)
    assert source is not None
    assert source.rtt_s == pytest.approx(0.08)


def test_probes_come_less_often_until_a_fetch_measures_again() -> None:
    rates, now, gaps = LinkRates(), 0.0, []
    for _ in range(9):
        before = now
        while not rates.is_due(PEER, now):
            now += 1.0
        gaps.append(now - before)
        rates.probing(PEER, now)
    assert gaps == [0, 2, 4, 8, 16, 32, 64, 120, 120]
    rates.used(PEER, now)
    assert not rates.is_due(PEER, now + 1.9)
    assert rates.is_due(PEER, now + 2.0)


def test_a_late_fetch_makes_bytes_dearer_and_the_next_smaller() -> None:
    rates = rates_after((1_000_000, 0.2))
    before = rates.source(PEER, RTT_S, 0.0)
    rates.late(PEER, 10_000, 1.1, RTT_S)
    after = rates.source(PEER, RTT_S, 0.0)
    assert before is not None
    assert after is not None
    assert after.per_byte_s == pytest.approx(1e-4)
    assert after.most_bytes == before.most_bytes // 2
    rates.took(PEER, 2_000_000, 0.3, RTT_S)
    again = rates.source(PEER, RTT_S, 0.0)
    assert again is not None
    assert again.per_byte_s < after.per_byte_s
    assert again.most_bytes == 8_000_000
    rates.took(PEER, 8_000_000, 0.9, RTT_S)
    grown = rates.source(PEER, RTT_S, 0.0)
    assert grown is not None
    assert grown.most_bytes == 10_000_000


def test_one_silence_holds_up_one_fetch_in_two_minutes_and_is_not_for_good() -> None:
    rates, now = rates_after((1_000_000, 0.2)), 0.0
    before = rates.source(PEER, RTT_S, now)
    assert before is not None
    rates.used(PEER, now)
    rates.late(PEER, 0, 1.6, RTT_S)
    rates.failed(PEER, now)
    while True:
        now += 1.0
        if rates.is_due(PEER, now):
            rates.probing(PEER, now)
            rates.took(PEER, 100_000, RTT_S + 0.01, RTT_S)
        source = rates.source(PEER, RTT_S, now)
        if source is not None and source.per_byte_s < 2.1 * before.per_byte_s:
            break
    assert 60 < now < 130


def test_a_worker_that_fails_is_left_alone_longer_and_longer() -> None:
    rates, now, pauses = rates_after((1000, 0.2)), 0.0, []
    for _ in range(8):
        rates.failed(PEER, now)
        rates.failed(PEER, now)  # asked before that
        before = now
        while rates.source(PEER, RTT_S, now) is None:
            now += 1.0
        pauses.append(now - before)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60]
    rates.took(PEER, 1000, 0.2, RTT_S)
    rates.failed(PEER, now)
    assert rates.source(PEER, RTT_S, now + 1.0) is not None


def test_one_that_sent_other_bytes_is_never_asked_again() -> None:
    rates = rates_after((1000, 0.2))
    assert rates.may_ask(PEER, 0.0)
    rates.wrong(PEER)
    rates.took(PEER, 1000, 0.2, RTT_S)
    assert not rates.may_ask(PEER, 1e9)
    assert rates.source(PEER, RTT_S, 1e9) is None
    assert not rates.is_due(PEER, 1e9)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_rates, "_MAX_PEERS", 3)
    rates = LinkRates()
    for n in range(5):
        rates.took(peer_id(n), 1000, 0.2, RTT_S)
    known = [rates.source(peer_id(n), RTT_S, 0.0) is not None for n in range(5)]
    assert known == [False, False, True, True, True]


def test_what_is_silent_for_days_is_a_number_all_the_same() -> None:
    rates = rates_after((1_000_000, 0.2))
    for _ in range(2000):
        rates.late(PEER, 0, 10.0, RTT_S)
    rates.took(PEER, 1_000_000, 0.2, RTT_S)
    source = rates.source(PEER, RTT_S, 0.0)
    assert source is not None
    assert 0.0 < source.per_byte_s < 1.0


TIMES = st.floats(allow_nan=True, allow_infinity=True)


@given(
    st.lists(
        st.tuples(st.sampled_from(["took", "late"]), st.integers(-5, 1 << 40), TIMES)
    )
)
def test_no_sample_makes_nonsense_of_an_estimate(
    samples: list[tuple[str, int, float]],
) -> None:
    rates = rates_after((1000, 0.2))
    for kind, n_bytes, seconds in samples:
        if kind == "took":
            rates.took(PEER, n_bytes, seconds, RTT_S)
        else:
            rates.late(PEER, max(0, n_bytes), min(abs(seconds), 1e3) or 0.0, RTT_S)
        source = rates.source(PEER, RTT_S, 0.0)
        assert source is not None
        assert source.per_byte_s > 0.0
        assert source.most_bytes >= 1
