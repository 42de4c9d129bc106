"""Audits under way: asked, asked again, given up, decided; pure."""

import dataclasses
from collections import Counter
from hashlib import sha256

import pytest

from ledger.beacon_rows import LATE_US, OpenAudit
from ledger.beacon_verdicts import Finding
from ledger.beacon_words import AuditState, Word
from ledger.leaf import Leaf
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.audits import Open, Opened, Recompute, Recomputed
from p2pmoe.ledgerd import questions as module
from p2pmoe.ledgerd.questions import Ask, Questions
from relay.keys import PeerId

MARKET, BACKBONE, WORKER = (PeerId(bytes([n]) * 32) for n in (1, 2, 3))
ONE, TWO, THREE = (bytes([n]) * 32 for n in (4, 5, 6))
ROWS = b"rows"
RIGHT, WRONG, OTHER = b"r" * 16, b"w" * 16, b"o" * 16
LEAF = Leaf(
    tab=b"tab-0001",
    serving=7,
    request=1,
    layer=2,
    expert=5,
    rows=3,
    price_epoch=1,
    x_hash=sha256(ROWS).digest()[:16],
    out_hash=RIGHT,
    nonce=bytes(8),
    amount_uc=30,
)
NOW_US = 1_000_000_000_000


def audit(number: int = 1, /, **changes: object) -> OpenAudit:
    values = {
        "id": number,
        "voucher_hash": b"v" * 32,
        "leaf": dataclasses.replace(LEAF, serving=number),
        "worker": WORKER,
        "backbone": BACKBONE,
        "manifest_hash": b"m" * 32,
        "profile": 2,
        "posted_us": NOW_US,
        "is_late": False,
    }
    return OpenAudit(**{**values, **changes})  # type: ignore[arg-type]


def opened(number: int = 1, rows: bytes = ROWS, reason: str = "") -> Opened:
    return Opened(voucher_hash=b"v" * 32, serving=number, rows=rows, reason=reason)


def recomputed(number: int, out_hash: bytes, referee: bytes) -> Recomputed:
    return Recomputed(number=number, out_hash=out_hash, referee=referee, reason="")


def asked(*audits: OpenAudit, now: float = 0.0) -> Questions:
    """Questions whose audits were sent to their backbones."""
    questions = Questions(MARKET)
    assert questions.add(audits or [audit()], NOW_US, now) == []
    questions.due(now)
    return questions


def judged(*words: tuple[bytes, bytes]) -> list[Ask | Finding]:
    """What the last of these words brought about."""
    questions = asked()
    questions.opened(BACKBONE, opened(), 1.0)
    acts = []
    for at, (referee, out_hash) in enumerate(words):
        acts = questions.recomputed(recomputed(4 + at, out_hash, referee), 2.0)
    return acts


def test_a_drawn_serving_is_asked_of_its_backbone():
    questions = Questions(MARKET)
    questions.add([audit()], NOW_US, 0.0)
    question = Open(voucher_hash=b"v" * 32, tab=LEAF.tab, serving=1)
    assert questions.due(0.0) == [Ask(BACKBONE, question)]
    assert questions.due(4.0) == []
    assert questions.due(5.0) == [Ask(BACKBONE, question)]
    assert questions.add([audit()], NOW_US, 5.0) == []  # known already
    assert questions.due(5.0) == []


def test_opened_rows_go_to_the_market():
    [ask] = asked().opened(BACKBONE, opened(), 1.0)
    assert ask == Ask(
        MARKET,
        Recompute(
            number=4,
            manifest_hash=b"m" * 32,
            expert=(ExpertId(2, 5),),
            profile=2,
            n_rows=3,
            worker=WORKER,
            avoid=b"",
            rows=ROWS,
        ),
    )


def test_equal_results_pass():
    [found] = judged((ONE, RIGHT))
    assert found == Finding(
        audit=1, state=AuditState.PASSED, words=(Word(ONE, RIGHT),), opened=b""
    )


def test_one_mismatch_asks_a_second_referee():
    [ask] = judged((ONE, WRONG))
    assert isinstance(ask, Ask)
    assert (ask.message.number, ask.message.avoid) == (5, ONE)


def test_two_who_agree_convict_and_the_rows_are_kept():
    [found] = judged((ONE, WRONG), (TWO, WRONG))
    assert found == Finding(
        audit=1,
        state=AuditState.FAILED,
        words=(Word(ONE, WRONG), Word(TWO, WRONG)),
        opened=ROWS,
    )


def test_a_second_who_agrees_with_the_worker_clears_it():
    [found] = judged((ONE, WRONG), (TWO, RIGHT))
    assert found.state is AuditState.PASSED


def test_three_different_words_decide_nothing():
    [ask] = judged((ONE, WRONG), (TWO, OTHER))
    assert ask.message.avoid == ONE + TWO
    [found] = judged((ONE, WRONG), (TWO, OTHER), (THREE, b"x" * 16))
    assert found.state is AuditState.UNJUDGED


@pytest.mark.parametrize(
    ("referee", "out_hash"),
    [(b"", b""), (WORKER, RIGHT), (ONE, b"short"), (b"short", RIGHT)],
)
def test_what_is_no_word_of_another_judges_nothing(referee, out_hash):
    [found] = judged((referee, out_hash))
    assert (found.state, found.words) == (AuditState.UNJUDGED, ())


def test_a_referee_has_one_word():
    [found] = judged((ONE, WRONG), (ONE, WRONG))
    assert (found.state, found.words) == (AuditState.UNJUDGED, (Word(ONE, WRONG),))


def test_answers_to_other_questions_change_nothing():
    questions = asked()
    questions.opened(BACKBONE, opened(), 1.0)
    for number in (0, 5, 8, (1 << 64) - 1):
        assert questions.recomputed(recomputed(number, RIGHT, ONE), 2.0) == []
    assert len(questions) == 1


def test_rows_of_another_backbone_or_serving_change_nothing():
    questions = asked()
    for peer, message in (
        (MARKET, opened()),
        (BACKBONE, opened(2)),
        (BACKBONE, dataclasses.replace(opened(), voucher_hash=bytes(32))),
    ):
        assert questions.opened(peer, message, 1.0) == []
    assert len(questions.opened(BACKBONE, opened(), 1.0)) == 1
    assert questions.opened(BACKBONE, opened(), 1.0) == []  # once


@pytest.mark.parametrize(
    ("message", "detail"),
    [
        (opened(rows=b"others"), "other rows than were sent"),
        (opened(rows=b"", reason="not kept any more"), "not kept any more"),
        (opened(rows=b"", reason="a\nb" * 200), ("ab" * 200)[:120]),
        (opened(rows=b""), "no reason given"),
    ],
)
def test_rows_that_are_not_shown_are_on_the_backbones_record(message, detail):
    [found] = asked().opened(BACKBONE, message, 1.0)
    assert found == Finding(audit=1, state=AuditState.UNOPENED, detail=detail)


def test_a_backbone_that_says_nothing_is_given_up():
    questions = asked()
    assert all(isinstance(act, Ask) for act in questions.due(59.0))
    assert questions.due(60.0) == [
        Finding(audit=1, state=AuditState.UNOPENED, detail="no answer")
    ]
    assert len(questions) == 0
    assert questions.opened(BACKBONE, opened(), 61.0) == []


def test_a_voucher_that_came_late_blames_nobody():
    [found] = asked(audit(is_late=True)).opened(BACKBONE, opened(rows=b""), 1.0)
    assert (found.state, found.detail) == (
        AuditState.UNASKED,
        "the voucher came late",
    )


def test_a_market_that_says_nothing_is_asked_again_and_given_up():
    questions = asked()
    questions.opened(BACKBONE, opened(), 1.0)
    assert questions.due(20.0) == []
    assert [act.message.number for act in questions.due(21.0)] == [4]
    [found] = questions.due(91.0)
    assert (found.state, found.detail) == (
        AuditState.UNJUDGED,
        "no answer of the market",
    )


def test_what_was_drawn_long_ago_is_not_asked():
    questions = Questions(MARKET)
    old = audit(posted_us=NOW_US - LATE_US - 1)
    [found] = questions.add([old], NOW_US, 0.0)
    assert found.state is AuditState.UNASKED
    assert len(questions) == 0


def test_so_many_of_a_backbone_and_so_many_at_once():
    others = [
        audit(100 + n, backbone=bytes([50 + n // 20]) * 32) for n in range(20 * 9)
    ]
    questions = Questions(MARKET)
    questions.add([audit(n) for n in range(1, 31)], NOW_US, 0.0)
    acts = questions.due(0.0)
    assert len(acts) == module.MAX_OF_BACKBONE
    questions.add(others, NOW_US, 0.0)
    acts += questions.due(0.0)
    assert len(acts) == module.MAX_UNDER_WAY
    assert max(Counter(act.peer for act in acts).values()) <= module.MAX_OF_BACKBONE
    for number in range(1, 4):
        questions.opened(BACKBONE, opened(number, rows=b""), 1.0)
    assert len(questions.due(1.0)) == 3


def test_who_has_many_audits_crowds_nobody_out(monkeypatch):
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 4)
    questions = Questions(MARKET)
    loud = [audit(n) for n in range(1, 200)]
    quiet = audit(900, worker=PeerId(TWO), backbone=PeerId(ONE))
    questions.add([*loud, quiet], NOW_US, 0.0)
    assert 900 in [act.message.serving for act in questions.due(0.0)]


def test_a_silent_backbone_keeps_no_other_ones_audits_back(monkeypatch):
    monkeypatch.setattr(module, "MAX_OF_BACKBONE", 1)
    questions = Questions(MARKET)
    other = audit(900, backbone=PeerId(ONE))  # the same worker, elsewhere
    questions.add([audit(1), audit(2), other], NOW_US, 0.0)
    assert [act.message.serving for act in questions.due(0.0)] == [1, 900]


def test_who_waited_too_long_for_a_turn_is_not_to_blame(monkeypatch):
    monkeypatch.setattr(module, "MAX_UNDER_WAY", 1)
    questions = asked(audit(1), audit(2))
    questions.opened(BACKBONE, opened(1, rows=b""), 21.0)
    [found] = questions.due(21.0)
    assert (found.audit, found.state) == (2, AuditState.UNASKED)


def test_rows_that_wait_for_a_referee_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_JUDGED", 1)
    monkeypatch.setattr(module, "MAX_HELD_BYTES", 2 * len(ROWS))
    questions = asked(*[audit(n) for n in range(1, 4)])
    assert len(questions.opened(BACKBONE, opened(1), 1.0)) == 1
    assert questions.opened(BACKBONE, opened(2), 1.0) == []
    questions.add([audit(4)], NOW_US, 1.0)
    assert questions.due(1.0) == []  # as much is held as may be
    found, ask = questions.recomputed(recomputed(4, RIGHT, ONE), 2.0)
    assert (found.audit, ask.message.number) == (1, 8)
    assert [act.message.serving for act in questions.due(2.0)] == [4]


def test_more_than_may_wait_are_not_asked(monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    questions = Questions(MARKET)
    found = questions.add([audit(n) for n in range(1, 4)], NOW_US, 0.0)
    assert [each.audit for each in found] == [3]
