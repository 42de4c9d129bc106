"""Shards from workers: all asked at once, put together, whatever a worker sends."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.errors import SendQueueFull
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import Message
from mobile_worker.messages.blobs import Blob, BlobError, Get
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.transfer import PIECE_BYTES
from p2pmoe.backbone.prefetch.fetch_work import (
    Came,
    FetchReply,
    FetchWork,
    Lack,
    Lacking,
    Wanted,
)
from p2pmoe.backbone.prefetch.fetching import (
    QUESTION_BYTES,
    Fetcher,
    FetcherParts,
    Limits,
)
from relay.keys import PeerId
from tests.support.backbone import peer_id

SIZES = (1, PIECE_BYTES, QUESTION_BYTES, QUESTION_BYTES + 1, 2 * QUESTION_BYTES + 999)
HOLDER, OTHER = peer_id(1), peer_id(2)


def body_of(index: int) -> bytes:
    return bytes([index + 1]) * SIZES[index]


class Rig:
    """A fetcher, and what it sent."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.sent: list[tuple[PeerId, Get]] = []
        self.now = 5.0
        self.relayed: set[PeerId] = set()
        self.refuse: Callable[[int], bool] = lambda n: False
        entries = {
            ExpertId(0, index): ManifestExpert(
                expert=ExpertId(0, index),
                layout=0,
                digest=bytes([index]) * 32,
                n_bytes=n_bytes,
                ranges=(),
            )
            for index, n_bytes in enumerate(SIZES)
        }
        self.fetcher = Fetcher(
            FetcherParts(
                send=self._send,
                entries=entries,
                clock=lambda: self.now,
                random=Random(1),
                is_relayed=lambda peer: peer in self.relayed,
                limits=limits or Limits(),
            )
        )

    def _send(self, peer: PeerId, message: Message) -> None:
        assert isinstance(message, Get)
        if self.refuse(len(self.sent)):
            raise SendQueueFull("full")
        self.sent.append((peer, message))

    def start(self, *indices: int, peer: PeerId = HOLDER) -> FetchWork:
        wanted = [Wanted(expert=ExpertId(0, index), peer=peer) for index in indices]
        work = FetchWork(wanted=tuple(wanted))
        self.fetcher.start(work)
        return work

    def answer(self, get: Get, *, at_most: int = 1 << 30) -> Blob:
        index = get.digest[0]
        body = body_of(index)
        return Blob(
            request=get.request,
            digest=get.digest,
            offset=get.offset,
            total=len(body),
            error=BlobError.OK,
            body=body[get.offset : get.offset + min(get.length, at_most)],
        )


def replies(work: FetchWork) -> list[FetchReply]:
    found = []
    while not work.replies.empty():
        found.append(work.replies.get_nowait())
    return found


def lack(work: FetchWork) -> Lack:
    (reply,) = replies(work)
    assert isinstance(reply, Lacking)
    return reply.why


def test_all_questions_leave_at_once_and_in_any_order_come_together() -> None:
    rig = Rig()
    work = rig.start(*range(len(SIZES)))
    assert len(rig.sent) == sum(-(-n // QUESTION_BYTES) for n in SIZES)
    for peer, get in reversed(rig.sent):
        rig.fetcher.on_blob(peer, rig.answer(get))
    came = replies(work)
    assert {r.wanted.expert.index: bytes(r.shard) for r in came} == {
        index: body_of(index) for index in range(len(SIZES))
    }
    assert all(r.at == 5.0 and r.shard.readonly for r in came)
    assert rig.fetcher.n_open == 0


def test_a_worker_that_answers_a_little_is_asked_for_the_rest() -> None:
    rig = Rig()
    work = rig.start(4)
    while rig.fetcher.n_open:
        peer, get = rig.sent.pop(0)
        rig.fetcher.on_blob(peer, rig.answer(get, at_most=PIECE_BYTES))
    (came,) = replies(work)
    assert isinstance(came, Came)
    assert bytes(came.shard) == body_of(4)


@pytest.mark.parametrize(
    "change",
    [
        lambda blob: replace(blob, total=blob.total + 1),
        lambda blob: replace(blob, total=0),
        lambda blob: replace(blob, body=blob.body + b"x"),
        lambda blob: replace(blob, body=b""),
        lambda blob: replace(blob, body=blob.body[: PIECE_BYTES - 1]),
    ],
)
def test_what_is_no_answer_is_wrong_and_ends_it(
    change: Callable[[Blob], Blob],
) -> None:
    rig = Rig()
    work = rig.start(4)
    rig.fetcher.on_blob(HOLDER, change(rig.answer(rig.sent[0][1])))
    assert lack(work) is Lack.WRONG
    assert rig.fetcher.n_open == 0
    for peer, get in rig.sent:
        rig.fetcher.on_blob(peer, rig.answer(get))
    assert work.replies.empty()
    assert rig.fetcher.n_dropped == len(rig.sent)


def test_only_the_worker_that_was_asked_may_answer_and_once() -> None:
    rig = Rig()
    work = rig.start(0)
    blob = rig.answer(rig.sent[0][1])
    rig.fetcher.on_blob(OTHER, blob)
    rig.fetcher.on_blob(HOLDER, replace(blob, digest=bytes(32)[:-1] + b"x"))
    rig.fetcher.on_blob(HOLDER, replace(blob, offset=7))
    rig.fetcher.on_blob(HOLDER, replace(blob, request=blob.request + 9))
    assert work.replies.empty()
    rig.fetcher.on_blob(HOLDER, blob)
    rig.fetcher.on_blob(HOLDER, blob)
    assert len(replies(work)) == 1
    assert rig.fetcher.n_dropped == 5


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (BlobError.BUSY, Lack.BUSY),
        (BlobError.UNKNOWN, Lack.UNKNOWN),
        (BlobError.RANGE, Lack.UNKNOWN),
        (99, Lack.UNKNOWN),
    ],
)
def test_a_worker_may_say_no(code: int, why: Lack) -> None:
    rig = Rig()
    work = rig.start(4)
    blob = replace(rig.answer(rig.sent[1][1]), error=code, body=b"")
    rig.fetcher.on_blob(HOLDER, blob)
    assert lack(work) is why


def test_a_lost_worker_and_a_full_queue_are_told_at_once() -> None:
    rig = Rig()
    work, theirs = rig.start(0, 4), rig.start(1, peer=OTHER)
    rig.fetcher.on_lost(HOLDER)
    assert [reply.why for reply in replies(work)] == [Lack.LOST, Lack.LOST]
    assert theirs.replies.empty()
    rig = Rig()
    rig.refuse = lambda n: n == 1
    work = rig.start(4, 0)
    assert [reply.why for reply in replies(work)] == [Lack.LOST, Lack.LOST]
    assert rig.fetcher.n_open == 0


def test_an_expert_that_the_model_has_not_is_told_and_asks_nobody() -> None:
    rig = Rig()
    assert lack(rig.start(len(SIZES))) is Lack.UNKNOWN
    assert not rig.sent


def test_what_is_stopped_gets_no_more_replies() -> None:
    rig = Rig()
    work, other = rig.start(4), rig.start(3)
    rig.fetcher.stop(work)
    for peer, get in rig.sent:
        rig.fetcher.on_blob(peer, rig.answer(get))
    assert work.replies.empty()
    assert len(replies(other)) == 1
    rig.fetcher.stop(work)


def test_no_more_is_asked_by_a_relay_than_it_keeps() -> None:
    most = QUESTION_BYTES + PIECE_BYTES
    rig = Rig(Limits(direct=1 << 30, relayed=most, all_relayed=2 * most))
    third = peer_id(3)
    rig.relayed = {HOLDER, OTHER, third}
    works = [rig.start(4, 1, 0, peer=peer) for peer in (HOLDER, OTHER, third)]
    asked: dict[PeerId, int] = dict.fromkeys(rig.relayed, 0)
    answered = 0
    while answered < len(rig.sent):
        waiting = rig.sent[answered:]
        for peer in asked:
            asked[peer] = sum(get.length for own, get in waiting if own == peer)
        assert max(asked.values()) <= most
        assert sum(asked.values()) <= 2 * most
        peer, get = rig.sent[answered]
        rig.fetcher.on_blob(peer, rig.answer(get))
        answered += 1
    assert all(len(replies(work)) == 3 for work in works)
    assert rig.fetcher.n_open == 0
    rig.start(4, 1)
    rig.fetcher.on_lost(HOLDER)
    assert rig.fetcher.n_open == 0


ACTS = st.sampled_from(["right", "short", "no", "lost", "other total"])


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), ACTS), max_size=12),
    st.builds(
        Limits,
        relayed=st.sampled_from([1, QUESTION_BYTES, 1 << 20]),
        all_relayed=st.sampled_from([1, 3 << 20]),
    ),
)
def test_each_expert_gets_one_reply_whatever_comes(
    acts: list[tuple[int, str]], limits: Limits
) -> None:
    rig = Rig(limits)
    rig.relayed = {HOLDER}
    work = rig.start(*range(len(SIZES)))
    for at, act in acts:
        peer, get = rig.sent[at % len(rig.sent)]
        blob = rig.answer(get, at_most=PIECE_BYTES if act == "short" else 1 << 30)
        if act == "no":
            blob = replace(blob, error=BlobError.BUSY, body=b"")
        elif act == "other total":
            blob = replace(blob, total=12345)
        if act == "lost":
            rig.fetcher.on_lost(peer)
        else:
            rig.fetcher.on_blob(peer, blob)
    at = 0
    while at < len(rig.sent):
        peer, get = rig.sent[at]
        rig.fetcher.on_blob(peer, rig.answer(get))
        at += 1
    found = replies(work)
    assert sorted(r.wanted.expert.index for r in found) == list(range(len(SIZES)))
    for reply in found:
        if isinstance(reply, Came):
            assert bytes(reply.shard) == body_of(reply.wanted.expert.index)
