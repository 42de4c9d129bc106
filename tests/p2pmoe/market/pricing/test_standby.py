"""Standby pay: (e) splitting gains nothing, and never more than the pot."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.prices import ONE_Q16
from ledger.standby import StandbyPaper
from p2pmoe.market.pricing import standby as standby_module
from p2pmoe.market.pricing.epochs import Epoch
from p2pmoe.market.pricing.standby import PaperTerms, Replica, draw_up_paper
from tests.support.market_prices import EXPERTS, model_of

DAY_US = 86_400_000_000
EPOCH = Epoch(7, 7 * DAY_US, 8 * DAY_US)
POT_UC = 1_000_000_000
TERMS = PaperTerms(network=bytes(32), standby_uc=POT_UC, salt=b"salt")
NAME, TABLE = b"m" * 32, b"t" * 32
REPLICAS = st.lists(
    st.builds(
        lambda expert, n: Replica(expert, bytes([n]) * 32, f"domain {n % 3}"),
        st.sampled_from(EXPERTS),
        st.integers(0, 9),
    ),
    min_size=1,
    unique=True,
)


def draw(replicas, model=None, terms=TERMS) -> StandbyPaper:
    paper = draw_up_paper(terms, (NAME, model or model_of()), TABLE, EPOCH, replicas)
    assert paper is not None
    return paper


@given(REPLICAS)
def test_never_more_than_the_pot(replicas) -> None:
    paper = draw(replicas)
    assert StandbyPaper.parse(paper.pack()) == paper
    assert 0 < sum(paper.pay().values()) <= POT_UC
    assert paper.pay().keys() == {replica.worker for replica in replicas}
    assert (paper.epoch, paper.from_us, paper.to_us) == (7, 7 * DAY_US, 8 * DAY_US)
    assert (paper.manifest_hash, paper.price_table_hash) == (NAME, TABLE)


@given(REPLICAS, st.integers(2, 50))
@settings(max_examples=50)
def test_e_many_identities_of_one_domain_get_what_one_gets(replicas, n: int) -> None:
    rng = random.Random(n)
    split = [
        Replica(replica.expert, rng.randbytes(32), replica.domain)
        for replica in replicas
        for _ in range(n)
    ]
    before, after = of_domains(replicas), of_domains(split)
    for domain, amount_uc in before.items():
        assert after[domain] <= amount_uc + len(replicas)  # all is rounded down


def of_domains(replicas) -> dict[str, int]:
    domains = {replica.worker: replica.domain for replica in replicas}
    sums = dict.fromkeys(domains.values(), 0)
    for worker, amount_uc in draw(replicas).pay().items():
        sums[domains[worker]] += amount_uc
    return sums


def test_a_replica_more_than_wanted_shares_what_there_is() -> None:
    """Three domains of two wanted: each gets two thirds of a third of the pot."""
    one = EXPERTS[0]
    model = model_of((one,))
    workers = [bytes([n]) * 32 for n in range(3)]
    both = draw([Replica(one, w, w.hex()) for w in workers[:2]], model).pay()
    assert both == dict.fromkeys(workers[:2], POT_UC // 2)
    three = draw([Replica(one, w, w.hex()) for w in workers], model).pay()
    assert three == dict.fromkeys(workers, POT_UC // 3)


def test_what_lacks_coverage_stays_in_the_pot() -> None:
    alone = draw([Replica(EXPERTS[0], bytes(32), "a")], model_of(EXPERTS[:1])).pay()
    assert alone == {bytes(32): POT_UC // 2}


def test_rows_of_the_epoch_and_targets_are_told() -> None:
    model = model_of()
    model.paid.take((0, 1), [(EXPERTS[1], 40)], set(EXPERTS))
    paper = draw([Replica(EXPERTS[0], bytes(32), "a")], model)
    assert [each.demand for each in paper.experts[:3]] == [0, 40, 0]
    assert {each.target for each in paper.experts} == {2 * ONE_Q16}
    assert [each.coverage for each in paper.experts[:2]] == [ONE_Q16, 0]


def test_without_a_pot_or_replicas_there_is_no_paper() -> None:
    replica = Replica(EXPERTS[0], bytes(32), "a")
    none = PaperTerms(network=bytes(32), standby_uc=0, salt=b"salt")
    assert draw_up_paper(none, (NAME, model_of()), TABLE, EPOCH, [replica]) is None
    assert draw_up_paper(TERMS, (NAME, model_of()), TABLE, EPOCH, []) is None
    unknown = Replica(9 << 16, bytes(32), "a")
    assert draw_up_paper(TERMS, (NAME, model_of()), TABLE, EPOCH, [unknown]) is None


def test_of_too_many_replicas_each_epoch_draws_others(monkeypatch) -> None:
    monkeypatch.setattr(standby_module, "MAX_STANDBY_HOLDINGS", 3)
    replicas = [Replica(e, bytes(32), "a") for e in EXPERTS]
    drawn = set()
    for number in range(20):
        epoch = Epoch(number, number * DAY_US, (number + 1) * DAY_US)
        paper = draw_up_paper(TERMS, (NAME, model_of()), TABLE, epoch, replicas)
        assert paper is not None
        assert len(paper.holdings) == 3
        drawn |= {each.expert for each in paper.holdings}
    assert drawn == set(EXPERTS)


def test_labels_tell_domains_apart_and_do_not_name_them() -> None:
    replicas = [Replica(EXPERTS[0], bytes([n]) * 32, f"d{n // 2}") for n in range(4)]
    labels = [each.domain for each in draw(replicas).holdings]
    assert labels[0] == labels[1] != labels[2] == labels[3]
    other = PaperTerms(network=bytes(32), standby_uc=POT_UC, salt=b"other")
    assert labels[0] != draw(replicas, terms=other).holdings[0].domain
