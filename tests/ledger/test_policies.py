"""Setting a policy: signed, for what closes from then on."""

import pytest
from sqlalchemy import select

from ledger.errors import FormatRefused, OperationRefused
from ledger.policies import POLICY_TERMS
from ledger.policy import Policy, verify_policy
from ledger.schema_closing import closing, policy


def policies(store, world) -> list[Policy]:
    with store.reader().session() as connection:
        rows = connection.execute(select(policy).order_by(policy.c.seq)).all()
    found = [verify_policy(row.raw, row.signature, world.ledger.id) for row in rows]
    assert [one.content_hash for one in found] == [row.hash for row in rows]
    assert [one.since_us for one in found] == [row.posted_us for row in rows]
    return found


def operate(store, **params):
    return store.operate("policy.set", params).result(60)


def test_a_new_ledger_signs_its_first_policy_once(world, tmp_path):
    terms = Policy(fee_ppm=7)
    with world.open(tmp_path, terms=terms) as store:
        first = policies(store, world)
    assert [(one.fee_ppm, one.since_us) for one in first] == [(7, world.now_us)]
    with world.open(tmp_path, terms=Policy(fee_ppm=8)) as store:
        assert policies(store, world) == first


def test_it_is_shown_before_it_is_done(world, store):
    told = operate(store, fee_ppm=10_000)
    assert (told["committed"], told["changed"], told["fee_ppm"]) == (False, True, 10**4)
    assert len(policies(store, world)) == 1
    told = operate(store, fee_ppm=10_000, commit=True)
    assert (told["committed"], told["changed"]) == (True, True)
    assert policies(store, world)[-1].fee_ppm == 10_000


def test_the_same_terms_are_no_new_policy_but_may_come_back(world, store):
    assert not operate(store, fee_ppm=0, commit=True)["changed"]
    for fee_ppm in (5, 5, 0):
        operate(store, fee_ppm=fee_ppm, commit=True)
    assert [one.fee_ppm for one in policies(store, world)] == [0, 5, 0]


def test_what_is_closed_keeps_its_terms(world, store):
    for n, fee_ppm in enumerate((0, 500_000)):
        operate(store, fee_ppm=fee_ppm, commit=True)
        issued = store.grant(world.order()).result(60)
        world.tab(issued, tab=b"tab-%04d" % n).file(store, 1, final=True)
    with store.reader().session() as connection:
        rows = connection.execute(
            select(closing.c.fee_uc, closing.c.amount_uc).order_by(closing.c.log_index)
        ).all()
    assert [row.fee_uc for row in rows] == [0, rows[1].amount_uc // 2]


def test_terms_that_make_no_sense_are_refused(world, store):
    with pytest.raises(OperationRefused, match="unknown"):
        operate(store, tax=1)
    with pytest.raises(OperationRefused):
        operate(store, fee_ppm="1")
    with pytest.raises(FormatRefused):
        operate(store, fee_ppm=10**6 + 1, commit=True)
    assert set(operate(store)) == {"committed", "changed", *POLICY_TERMS}
    assert len(policies(store, world)) == 1


def test_terms_that_come_back_in_the_same_instant_get_a_name_of_their_own(world, store):
    for fee_ppm in (5, 0):
        operate(store, fee_ppm=fee_ppm, commit=True)
    found = policies(store, world)
    assert [one.fee_ppm for one in found] == [0, 5, 0]
    assert len({one.content_hash for one in found}) == 3
