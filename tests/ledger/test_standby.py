"""The STANDBY paper: golden bytes, bounds, and amounts that never pass the pot."""

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import AmountRefused, FormatRefused, SignatureRefused
from ledger.prices import ONE_Q16, PRICE_DOMAIN
from ledger.standby import (
    MAX_STANDBY_HOLDINGS,
    STANDBY_DOMAIN,
    ExpertScarcity,
    Holding,
    StandbyPaper,
    sign_standby,
    standby_hash,
    verify_standby,
)
from tests.support.ledger_world import Party, World
from tests.support.standby_world import paper_of

ONE = ONE_Q16
SMALL = StandbyPaper(
    network=b"n" * 32,
    manifest_hash=b"m" * 32,
    epoch=7,
    from_us=600_000_000,
    to_us=1_200_000_000,
    price_table_hash=b"p" * 32,
    pot_uc=1000,
    experts=(
        ExpertScarcity(1, 9, 2 * ONE, 2 * ONE, ONE),
        ExpertScarcity(1 << 16, 0, ONE, ONE, 2 * ONE),
    ),
    holdings=(
        Holding(1, b"a" * 32, b"domain-1", ONE),
        Holding(1 << 16, b"a" * 32, b"domain-1", ONE),
        Holding(1 << 16, b"b" * 32, b"domain-2", ONE // 2),
    ),
)


def test_golden_bytes():
    head = b"PMSB\x01" + b"n" * 32 + b"m" * 32 + (7).to_bytes(4, "big")
    head += (600_000_000).to_bytes(8, "big") + (1_200_000_000).to_bytes(8, "big")
    head += b"p" * 32 + (1000).to_bytes(8, "big")
    head += (2).to_bytes(4, "big") + (3).to_bytes(4, "big")
    experts = bytes.fromhex("00000001 0000000000000009 00020000 00020000 00010000")
    experts += bytes.fromhex("00010000 0000000000000000 00010000 00010000 00020000")
    holdings = bytes.fromhex("00000001") + b"a" * 32 + b"domain-1\x00\x01\x00\x00"
    holdings += bytes.fromhex("00010000") + b"a" * 32 + b"domain-1\x00\x01\x00\x00"
    holdings += bytes.fromhex("00010000") + b"b" * 32 + b"domain-2\x00\x00\x80\x00"
    raw = head + experts + holdings
    assert SMALL.pack() == raw
    assert StandbyPaper.parse(raw) == SMALL
    assert SMALL.content_hash == standby_hash(raw) == sha256(raw).digest()


def test_amounts_follow_from_the_formula():
    # H m a min(1, T/R) / sum(m T): the sum is 2*2 + 1*1 = 5
    assert [uc for _, uc in SMALL.amounts()] == [400, 100, 50]
    assert SMALL.pay() == {b"a" * 32: 500, b"b" * 32: 50}


def test_nothing_to_weigh_pays_nothing():
    experts = (ExpertScarcity(1, 0, ONE, 0, ONE),)
    paper = replace(SMALL, experts=experts, holdings=SMALL.holdings[:1])
    assert [uc for _, uc in paper.amounts()] == [0]
    assert paper.pay() == {}


@st.composite
def papers(draw):
    """Any paper: shares are cut so that they fit their domain and their expert."""
    experts, holdings = [], []
    for expert in sorted(draw(st.sets(st.integers(0, (1 << 32) - 1), max_size=5))):
        coverage = draw(st.integers(0, 6 * ONE))
        left, domains = coverage, {}
        for worker in range(draw(st.integers(0, 6))):
            domain = b"domain-%d" % draw(st.integers(0, 2))
            room = min(left, ONE - domains.get(domain, 0))
            if room == 0:
                continue
            share = draw(st.integers(1, room))
            left -= share
            domains[domain] = domains.get(domain, 0) + share
            holdings.append(Holding(expert, bytes([worker]) * 32, domain, share))
        m = draw(st.integers(1, 4 * ONE))
        target = draw(st.integers(0, 9 * ONE))
        demand = draw(st.integers(0, 1 << 40))
        experts.append(ExpertScarcity(expert, demand, m, target, coverage))
    return replace(
        SMALL,
        pot_uc=draw(st.integers(0, MAX_AMOUNT_UC)),
        experts=tuple(experts),
        holdings=tuple(holdings),
    )


@given(papers())
def test_bytes_come_back_and_the_pot_is_never_passed(paper):
    assert StandbyPaper.parse(paper.pack()) == paper
    assert sum(uc for _, uc in paper.amounts()) <= paper.pot_uc
    assert sum(paper.pay().values()) == sum(uc for _, uc in paper.amounts())


@given(papers(), st.data())
def test_a_replica_split_in_two_of_one_domain_gains_nothing(paper, data):
    splittable = [n for n, each in enumerate(paper.holdings) if each.share > 1]
    if not splittable:
        return
    n = data.draw(st.sampled_from(splittable))
    whole = paper.holdings[n]
    part = data.draw(st.integers(1, whole.share - 1))
    halves = (
        replace(whole, share=part),
        replace(whole, worker=b"\xff" * 32, share=whole.share - part),
    )
    others = paper.holdings[:n] + paper.holdings[n + 1 :]
    order = sorted((*others, *halves), key=lambda each: (each.expert, each.worker))
    split = dict(replace(paper, holdings=tuple(order)).amounts())
    before = dict(paper.amounts())
    assert split[halves[0]] + split[halves[1]] <= before[whole]


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": b"n"},
        {"manifest_hash": b""},
        {"price_table_hash": b"p" * 33},
        {"epoch": 1 << 32},
        {"epoch": -1},
        {"from_us": -1},
        {"to_us": SMALL.from_us},
        {"to_us": SMALL.from_us + 999_999},
        {"to_us": SMALL.from_us + 86_400_000_001},
        {"experts": SMALL.experts[::-1]},
        {"experts": SMALL.experts[:1] * 2},
        {"experts": SMALL.experts[:1]},
        {"experts": (ExpertScarcity(1, 0, 0, ONE, ONE), SMALL.experts[1])},
        {"experts": (ExpertScarcity(1, -1, ONE, ONE, ONE), SMALL.experts[1])},
        {"experts": (ExpertScarcity(1, 0, 1 << 32, ONE, ONE), SMALL.experts[1])},
        {"experts": (ExpertScarcity(1, 0, ONE, ONE, ONE - 1), SMALL.experts[1])},
        {"holdings": SMALL.holdings[::-1]},
        {"holdings": SMALL.holdings[:1] * 2},
        {"holdings": (Holding(1, b"a" * 32, b"domain-1", 0),)},
        {"holdings": (Holding(1, b"a" * 32, b"domain-1", ONE + 1),)},
        {"holdings": (Holding(2, b"a" * 32, b"domain-1", ONE),)},
        {"holdings": (Holding(1, b"a" * 31, b"domain-1", ONE),)},
        {"holdings": (Holding(1, b"a" * 32, b"domain", ONE),)},
        {"holdings": SMALL.holdings[:1] * (MAX_STANDBY_HOLDINGS + 1)},
        {
            "holdings": (
                Holding(1 << 16, b"a" * 32, b"domain-1", ONE),
                Holding(1 << 16, b"b" * 32, b"domain-1", 1),
            )
        },
    ],
)
def test_what_does_not_fit_is_refused(wrong):
    with pytest.raises(FormatRefused, match="standby paper"):
        replace(SMALL, **wrong)


def test_a_pot_is_an_amount():
    with pytest.raises(AmountRefused):
        replace(SMALL, pot_uc=MAX_AMOUNT_UC + 1)


@pytest.mark.parametrize("cut", [0, 4, 100, 140])
def test_bytes_that_end_early_are_refused(cut):
    with pytest.raises(FormatRefused):
        StandbyPaper.parse(SMALL.pack()[:cut])


@given(st.integers(0, len(SMALL.pack()) * 8 - 1))
def test_a_flipped_bit_is_another_paper_or_none(bit):
    raw = bytearray(SMALL.pack())
    raw[bit // 8] ^= 1 << bit % 8
    try:
        found = StandbyPaper.parse(bytes(raw))
    except (FormatRefused, AmountRefused):
        return
    assert found.pack() == bytes(raw) != SMALL.pack()


def test_counts_beyond_the_bytes_are_refused():
    raw = bytearray(SMALL.pack())
    raw[129:133] = b"\xff" * 4
    with pytest.raises(FormatRefused):
        StandbyPaper.parse(bytes(raw))


def test_its_signature_fits_no_other_document():
    world, market = World(), Party("market")
    raw = paper_of(world, Party("a")).pack()
    assert verify_standby(raw, sign_standby(raw, market.sign), market.id).pack() == raw
    assert STANDBY_DOMAIN != PRICE_DOMAIN
    with pytest.raises(SignatureRefused):
        verify_standby(raw, market.sign(PRICE_DOMAIN + raw), market.id)
