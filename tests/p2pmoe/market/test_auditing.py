"""Checks as the book sees them: from HELD to good standing, and out again."""

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import (
    Canary,
    CheckOutcome,
    Held,
    Placement,
    Recompute,
    Recomputed,
    Refused,
    Release,
    Standing,
    Verdict,
)
from mobile_worker.shards.manifest import manifest_hash
from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market.devices import MAX_ON_PROBATION
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.standing import SUSPENSION_S
from tests.support.audited_market import (
    BACKBONE,
    LEDGER,
    MODEL,
    NAME,
    PERIOD_S,
    AuditedWorld,
    honest,
    wrong,
)
from tests.support.market_peers import make_manifest

GOOD, PROBATION = StandingState.GOOD, StandingState.PROBATION
SUSPENDED, REFUSED = StandingState.SUSPENDED, StandingState.REFUSED
PASSED, FAILED, SILENT = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.SILENT


@pytest.fixture
def world() -> AuditedWorld:
    return AuditedWorld()


def test_a_newcomer_proves_what_it_holds_within_seconds(world) -> None:
    world.start(["w1"])
    peer = world.peer("w1")
    assert world.told("w1", Standing).state == PROBATION
    assert not world.book.auditing.counts(peer)
    assert world.told(BACKBONE, Placement).holders == ()  # said when it was listed
    world.pass_time(0.2)
    assert len(world.told(BACKBONE, Placement).holders) == 1  # it serves all the same
    world.join("w2")
    world.pass_time(5)
    assert world.state("w1") is GOOD
    assert world.state("w2") is GOOD
    assert world.book.auditing.counts(peer)
    assert world.told("w1", Standing).state == GOOD
    expert = ExpertId(1, 3)
    assert world.book.auditing.is_proven(peer, NAME, expert, world.now)
    assert world.book.auditing.passed_at(peer, NAME, expert) is not None


def test_with_its_own_memory_the_backbone_vouches_for_a_lone_holder(world) -> None:
    world.start(["w1"])
    world.pass_time(5)
    assert world.state("w1") is PROBATION  # nobody else can compute it
    world.demand(BACKBONE, NAME, has_disk=True)
    world.pass_time(PERIOD_S + 20)
    assert world.state("w1") is GOOD


def test_who_lists_a_copy_of_a_model_and_lies_keeps_nobody_on_probation(world) -> None:
    world.start(["w1"])
    world.demand(BACKBONE, NAME, has_disk=True)
    world.notice("mallory", MODEL)
    world.demand("mallory", NAME, has_disk=True)
    world.says["mallory"] = wrong
    world.pass_time(PERIOD_S + 20)
    assert world.state("w1") is GOOD
    assert world.book.auditing.standings.of(world.peer("w1")).mismatches == 0


def test_all_are_asked_once_in_a_period_and_stay_proven(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(10)
    before = len(world.sent)
    world.pass_time(2 * PERIOD_S)
    asked = [
        expert
        for send in world.sent[before:]
        if isinstance(send.message, Canary) and send.peer == world.peer("w1")
        for expert in send.message.experts
    ]
    assert len(set(asked)) == 24
    assert 2 * 24 - 4 <= len(asked) <= 2 * 24 + 4  # the cycles began 10 s before
    assert all(
        world.book.auditing.is_proven(world.peer("w2"), NAME, e, world.now)
        for e in asked
    )


def test_b34_a_wrong_canary_is_found_out_by_two_other_domains(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.says["w3"] = wrong
    world.join("w3")
    world.pass_time(5)
    assert world.state("w3") is SUSPENDED
    assert not world.leased("w3")
    told = world.told("w3", Standing)
    assert told.reason == StandingReason.WRONG_CANARY
    assert 0 < told.until_s <= SUSPENSION_S
    assert "confirmed" in world.told("w3", Release).reason
    assert (world.state("w1"), world.state("w2")) == (GOOD, GOOD)
    records = {h.record for h in world.told(BACKBONE, Placement).holders}
    assert len(records) == 2


def test_a_suspended_worker_is_leased_nothing_until_its_time_is_over(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.says["w3"] = wrong
    world.join("w3")
    world.pass_time(5)
    world.says["w3"] = honest
    world.join("w3")
    assert not world.leased("w3")
    assert world.told("w3", Standing).state == SUSPENDED
    world.pass_time(SUSPENSION_S + 1)
    world.join("w3")
    assert world.leased("w3")
    world.pass_time(5)
    assert world.state("w3") is PROBATION  # 24 of 200 checks
    assert "of 200 checks" in world.told("w3", Standing).detail


def test_the_second_conviction_refuses_the_key_for_good(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.verdict("w2", FAILED, b"one")
    assert world.state("w2") is SUSPENDED
    world.verdict("w2", FAILED, b"one")  # said again
    assert world.state("w2") is SUSPENDED
    world.verdict("w2", FAILED, b"two")
    assert world.state("w2") is REFUSED
    sends = world.join("w2")
    assert any(isinstance(send.message, Refused) for send in sends)
    assert not world.leased("w2")


def test_a_convicted_key_does_not_come_back_after_a_restart(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.verdict("w1", FAILED, b"one")
    world.verdict("w1", FAILED, b"two")
    world.verdict("w2", FAILED, b"three")
    remembered = Remembered.parse(world.remembered.encode())
    after = AuditedWorld(remembered)
    after.start(["w1", "w2", "w3"])
    assert not after.leased("w1")
    assert not after.leased("w2")
    assert after.leased("w3")
    assert after.told("w1", Refused).reason == "this key is refused"
    assert after.told("w2", Standing).until_s == SUSPENSION_S


def test_only_the_ledger_is_believed_on_verdicts(world) -> None:
    world.start(["w1"])
    world.pass_time(1)
    verdict = Verdict(
        worker=world.peer("w1"),
        backbone=world.peer(BACKBONE),
        voucher_hash=b"v" * 32,
        serving=0,
        outcome=int(FAILED),
        referees=b"",
    )
    world.say("mallory", verdict)
    world.say(BACKBONE, verdict)
    assert world.state("w1") is PROBATION


def test_a_ledgers_pass_counts(world) -> None:
    world.start(["w1"])
    for _ in range(20):
        world.verdict("w1", PASSED)
    assert world.state("w1") is GOOD


def test_a_backbones_word_ends_its_own_business_alone(world) -> None:
    world.start(["w1", "w2"])
    other = make_manifest(n_layers=1, n_experts=2, name="other")
    world.notice("second", other)
    world.demand("second", b"", has_disk=False)
    world.says["second"] = honest
    hold_all(world, "w1", 40)
    world.pass_time(5)
    assert len(world.book.leases.of_worker(world.peer("w1"))) == 2
    theirs = (manifest_hash(other), ExpertId(0, 0))
    proofs = world.book.auditing.proofs
    proofs.passed(world.peer("w1"), *theirs, world.now)
    world.audit("w1", FAILED)
    assert proofs.is_proven(world.peer("w1"), *theirs, world.now)  # it is paid on
    assert not proofs.is_proven(world.peer("w1"), NAME, ExpertId(0, 0), world.now)
    (left,) = world.book.leases.of_worker(world.peer("w1"))
    assert left.deployment.backbone == world.peer("second")
    assert world.state("w1") is GOOD
    world.pass_time(600)
    world.offer("w1", 40, domain="w1")
    world.pass_time(10)
    assert len(world.book.leases.of_worker(world.peer("w1"))) == 1
    holders = world.told(BACKBONE, Placement).holders
    assert len(holders) == 1  # w2


def test_a_backbone_and_its_friend_have_nobody_refused(world) -> None:
    """A model of its own, one worker that it vouches for: a trap for whoever comes."""
    world.start(["w1", "w2"])
    world.pass_time(5)
    trap = make_manifest(n_layers=1, n_experts=200, name="trap")
    name = manifest_hash(trap)
    world.notice("mallory", trap)
    world.demand("mallory", name, has_disk=True)
    hold_all(world, "friend", 200, models=(name,))
    world.pass_time(20)
    assert world.state("friend") is GOOD
    for liar in ("friend", "mallory"):
        world.says[liar] = wrong
    hold_all(world, "w1", 300)
    assert len(world.book.leases.of_worker(world.peer("w1"))) == 2
    world.pass_time(20)
    assert world.state("w1") is GOOD
    (left,) = world.book.leases.of_worker(world.peer("w1"))
    assert left.deployment.backbone == world.peer(BACKBONE)


def hold_all(world: AuditedWorld, name: str, slots: int, **changes: object) -> None:
    world.offer(name, slots, domain=name, **changes)
    world.after(1)
    for lease in list(world.book.leases.of_worker(world.peer(name))):
        held = Held(lease=lease.lease_id, experts=tuple(lease.experts))
        world.take(world.book.held(world.peer(name), held, world.now))


def test_reports_of_strangers_and_on_strangers_are_ignored(world) -> None:
    world.start(["w1"])
    world.audit("w1", FAILED, by="mallory")
    world.audit("w2", FAILED)
    assert world.leased("w1")
    assert world.book.auditing.standings.of(world.peer("w2")).mismatches == 0


def test_silence_of_a_worker_is_counted_and_convicts_nobody(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.says["w2"] = None
    world.pass_time(4 * PERIOD_S)
    record = world.book.auditing.standings.of(world.peer("w2"))
    assert record.timeouts >= 24
    assert world.state("w2") is GOOD
    assert not world.book.auditing.is_proven(
        world.peer("w2"), NAME, ExpertId(0, 0), world.now
    )


def test_an_answer_with_a_reason_is_no_silence(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.says["w2"] = lambda _canary, _expert: None
    world.pass_time(4 * PERIOD_S)
    assert world.book.auditing.standings.of(world.peer("w2")).timeouts == 0


def test_b33_what_falls_into_an_outage_of_the_relay_is_nobodys_fault(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.says["w2"] = None
    world.audit("w2", SILENT, 7)
    world.book.auditing.relay_is_away(world.now)
    assert world.book.auditing.standings.of(world.peer("w2")).timeouts == 0
    world.audit("w2", SILENT, 7)
    world.pass_time(120)
    assert world.book.auditing.standings.of(world.peer("w2")).timeouts == 0
    world.book.auditing.relay_is_back(world.now)
    world.pass_time(31)
    world.audit("w2", SILENT, 7)
    assert world.book.auditing.standings.of(world.peer("w2")).timeouts == 7


def test_what_a_backbone_called_silence_as_it_was_lost_is_taken_back(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.audit("w2", SILENT, 7)
    world.take(world.book.lost(world.peer(BACKBONE), world.now))
    assert world.book.auditing.standings.of(world.peer("w2")).timeouts == 0


def test_most_domains_silent_at_once_is_the_networks_fault(world) -> None:
    world.start([f"w{n}" for n in range(6)])
    world.pass_time(5)
    for n in range(1, 5):
        world.says[f"w{n}"] = None
    world.pass_time(PERIOD_S)
    timeouts = [
        world.book.auditing.standings.of(world.peer(f"w{n}")).timeouts for n in range(6)
    ]
    assert timeouts == [0] * 6


def test_a_backbone_that_lies_against_two_domains_convicts_nobody(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    world.demand(BACKBONE, NAME, has_disk=True)
    world.says[BACKBONE] = wrong
    world.audit("w1", FAILED)
    assert len(world.book.leases.of_worker(world.peer("w1"))) == 0
    world.says["w3"] = lambda c, e: wrong(c, e) if e == ExpertId(0, 0) else honest(c, e)
    world.join("w4")
    world.pass_time(PERIOD_S + 20)
    assert world.state("w1") is GOOD
    assert world.state("w2") is GOOD


def test_the_ledgers_question_is_answered_by_another_domain(world) -> None:
    world.start(["w1", "w2", "w3"])
    world.pass_time(5)
    question = Recompute(
        number=4,
        manifest_hash=NAME,
        expert=(ExpertId(1, 1),),
        profile=1,
        n_rows=1,
        worker=world.peer("w1"),
        avoid=world.peer("w2"),
        rows=b"these rows",
    )
    assert world.say("mallory", question) == []
    (asked,) = world.say(LEDGER, question)
    assert asked.peer == world.peer("w3")
    answer = world.answer_of(asked.message, honest)
    (said,) = world.say("w3", answer)
    assert said.peer == world.peer(LEDGER)
    assert isinstance(said.message, Recomputed)
    assert said.message.referee == world.peer("w3")


def test_b34_of_fifty_fresh_keys_in_one_domain_three_are_enough(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    leased = 0
    for n in range(10, 60):
        world.says[f"w{n}"] = wrong
        world.join(f"w{n}", domain="flat")
        leased += world.leased(f"w{n}")
        world.pass_time(5)
        assert not world.leased(f"w{n}")
    assert leased == 3
    assert world.told("w59", Standing).reason == StandingReason.NEIGHBOURS
    assert (world.state("w1"), world.state("w2")) == (GOOD, GOOD)


def test_b34_nor_do_fifty_names_help_them_where_a_relay_sees_one_address(world) -> None:
    """Its word on a peer comes after the first offer, which may name any domain."""
    world.start(["w1", "w2"])
    world.pass_time(5)
    leased = 0
    for n in range(10, 60):
        name = f"w{n}"
        world.says[name] = wrong
        world.join(name, domain=f"site {n}")
        world.book.seen_from(world.peer(name), "203.0.113.0/24", world.now)
        world.pass_time(0.1)
        leased += world.leased(name)
        world.pass_time(5)
        assert not world.leased(name)
    assert leased == 3
    world.join("w59", domain="site 99")
    assert not world.leased("w59")
    assert world.told("w59", Standing).reason == StandingReason.NEIGHBOURS


def test_b34_a_backbone_is_done_with_a_domain_wherever_it_says_it_is(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    for n in range(10, 14):
        name = f"w{n}"
        world.join(name, domain=f"site {n}")
        world.book.seen_from(world.peer(name), "203.0.113.0/24", world.now)
        world.pass_time(0.1)
        assert world.leased(name) == (n < 13)
        world.audit(name, FAILED)


def test_b34_fifty_fresh_keys_that_agree_convict_no_honest_one(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    for n in range(10, 60):
        world.says[f"w{n}"] = wrong
        world.join(f"w{n}", domain=f"street {n % 25}")
    caught = set()
    for _ in range(30):  # whoever is leased something holds it, and is caught
        for n in range(10, 60):
            if world.leased(f"w{n}"):
                world.held(f"w{n}", world.lease(f"w{n}"))
                caught.add(n)
        world.pass_time(5)
        for name in ("w1", "w2"):
            assert world.state(name) is GOOD
            assert world.book.auditing.standings.of(world.peer(name)).cases == ()
    assert len(caught) == 50
    assert all(world.state(f"w{n}") is SUSPENDED for n in caught)


def test_a_newcomer_holds_what_one_canary_can_ask_for_and_then_more(world) -> None:
    large = make_manifest(n_layers=3, n_experts=100, name="large")
    world.start([], large)
    world.demand(BACKBONE, manifest_hash(large), has_disk=True)
    world.join("w1", slots=400)
    assert len(world.experts("w1")) == MAX_ON_PROBATION
    world.pass_time(3)
    assert world.state("w1") is GOOD
    world.after(0.5)
    assert len(world.experts("w1")) == 300


def test_nobody_on_probation_is_relied_on_for_a_floor(world) -> None:
    world.start([])
    for name in ("w1", "w2", "w3"):
        world.join(name, device_class=0)
    workers = [world.book.roster.workers[world.peer(n)] for n in ("w1", "w2", "w3")]
    (key, *_) = workers[0].device.held
    assert not world.book._moving._stands_without(workers[0], key)
    world.pass_time(5)
    assert world.book._moving._stands_without(workers[0], key)


def test_b31_a_storm_of_reconnects_costs_nobody_its_standing(world) -> None:
    world.start(["w1", "w2"])
    world.pass_time(5)
    for _ in range(50):
        world.take(world.book.lost(world.peer("w2"), world.now))
        world.join("w2")
        world.pass_time(0.1)
    world.pass_time(30)
    record = world.book.auditing.standings.of(world.peer("w2"))
    assert world.state("w2") is GOOD
    assert (record.mismatches, record.timeouts) == (0, 0)


def test_b31_one_identity_used_twice_is_one_worker_with_one_voice(world) -> None:
    """Two processes with one key: both offer, hold, and answer every canary."""
    world.start(["w1", "w2"])
    world.join("w2")  # the other process
    (deployment,) = world.book.roster.listings
    assert max(world.book.leases.replicas(deployment).counts.values()) == 2
    world.pass_time(5)
    first = world.book.auditing.standings.of(world.peer("w2")).passes
    assert 24 <= first <= 26  # each once, and a moment or two of the cycle
    before = len(world.sent)
    world.pass_time(PERIOD_S)
    for send in world.sent[before:]:  # the other one's answers, wrong ones
        if isinstance(send.message, Canary) and send.peer == world.peer("w2"):
            world.say("w2", world.answer_of(send.message, wrong))
    assert world.state("w2") is GOOD
    assert len(world.book.leases.of_worker(world.peer("w2"))) == 1
