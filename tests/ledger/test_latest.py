"""A ledger's time goes on from the last thing that it wrote, whatever that was."""

import dataclasses

import pytest

from ledger.beacon_words import AuditState
from ledger.latest import latest_us
from tests.support.beacons import decide, draw, new_tab
from tests.support.dispute_papers import answer_of, claim_of
from tests.support.disputes import answered, closed_tab, judged, opened
from tests.support.ledger_world import HOUR_US, World


def dispute(world, store, tab):
    opened(store, claim_of(tab, 0), tab.backbone)


def answer(world, store, tab):
    claim = claim_of(tab, 0)
    opened(store, claim, tab.backbone)
    world.now_us += 1
    answered(store, answer_of(tab, claim), tab.worker)


def dismiss(world, store, tab):
    claim = claim_of(tab, 0)
    number = opened(store, claim, tab.backbone)["id"]
    world.now_us += 1
    judged(store, number, claim.leaf.out_hash)


def refuse(world, store, tab):
    other = dataclasses.replace(tab.previous, issued_us=0)
    store.file(tab.sign(other), b"", tab.backbone.id).result(60)


def set_policy(world, store, tab):
    store.operate("policy.set", {"fee_ppm": 7, "commit": True}).result(60)


def cast(world, store, tab):
    draw(world, store)


def decide_an_audit(world, store, tab):
    draw(world, store)
    new_tab(world, store, "tab-0009").file(store, *range(30))
    found = draw(world, store)
    world.now_us += 1
    decide(store, found[0], state=AuditState.UNASKED)


def nothing(world, store, tab):
    world.now_us -= HOUR_US


@pytest.mark.parametrize(
    "event",
    [nothing, dispute, answer, dismiss, refuse, set_policy, cast, decide_an_audit],
)
def test_whatever_was_written_last(tmp_path, event):
    world = World()
    with world.open(tmp_path) as store:
        tab = closed_tab(world, store)
        world.now_us += HOUR_US
        event(world, store, tab)
        with store.reader().session() as connection:
            assert latest_us(connection) == world.now_us


def test_a_clock_that_was_set_back_does_not_turn_time(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = closed_tab(world, store)
        world.now_us += HOUR_US
        claim = claim_of(tab, 0)
        found = opened(store, claim, tab.backbone)
    world.now_us -= HOUR_US
    with world.open(tmp_path) as store:
        later = answered(store, answer_of(tab, claim), tab.worker)
    assert later["answered_us"] == found["opened_us"]


def test_a_new_ledger_has_only_its_policy(tmp_path):
    world = World()
    with world.open(tmp_path) as store, store.reader().session() as connection:
        assert latest_us(connection) == world.now_us
