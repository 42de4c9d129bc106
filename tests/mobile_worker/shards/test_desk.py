"""GET and BLOB between peers."""

import dataclasses
import hashlib
from pathlib import Path

import pytest
import trio

from mobile_worker.errors import SendQueueFull
from mobile_worker.messages.blobs import Blob, BlobError, Get
from mobile_worker.messages.market import Placement
from mobile_worker.shards.desk import (
    BlobDesk,
    answer_get,
    busy_blob,
    holders_blob,
    placement_blob,
)
from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.fetch import fetch_shard
from mobile_worker.shards.store import ShardStore
from mobile_worker.shards.transfer import MAX_ANSWER_BYTES
from relay.keys import PeerId
from relay.tokens import Role
from tests.support.market_peers import identity_of, record_of
from tests.support.messages import EXAMPLES
from tests.support.trio_test import trio_test

BODY = bytes(range(256)) * 300
DIGEST = hashlib.sha256(BODY).digest()
HOLDER, OTHER = PeerId(b"h" * 32), PeerId(b"o" * 32)


def filled(folder: Path) -> ShardStore:
    store = ShardStore(folder, max_bytes=10**6)
    part = store.begin(DIGEST.hex(), len(BODY))
    part.append(BODY)
    part.finish()
    return store


def get(**changes: object) -> Get:
    first = Get(request=5, digest=DIGEST, offset=0, length=100)
    return dataclasses.replace(first, **changes)


def test_a_get_is_answered_from_the_store(tmp_path: Path) -> None:
    store = filled(tmp_path)
    blob = answer_get(get(offset=10), store.read_range)
    assert (blob.request, blob.offset, blob.total) == (5, 10, len(BODY))
    assert (blob.error, blob.body) == (BlobError.OK, BODY[10:110])
    assert answer_get(get(length=10**9), store.read_range).body == BODY


def test_no_question_is_answered_with_more_than_a_piece() -> None:
    large = bytes(2 * MAX_ANSWER_BYTES)
    blob = answer_get(
        get(length=10**9), lambda _, at, n: (len(large), large[at : at + n])
    )
    assert len(blob.body) == MAX_ANSWER_BYTES


def test_what_is_not_here_is_a_code_without_local_texts(tmp_path: Path) -> None:
    store = filled(tmp_path)
    unknown = answer_get(get(digest=bytes(32)), store.read_range)
    assert (unknown.error, unknown.body) == (BlobError.UNKNOWN, b"")
    beyond = answer_get(get(offset=len(BODY)), store.read_range)
    assert (beyond.error, beyond.total) == (BlobError.RANGE, len(BODY))
    (tmp_path / f"{DIGEST.hex()}.shard").unlink()
    gone = answer_get(get(), store.read_range)
    assert (gone.error, gone.body) == (BlobError.UNKNOWN, b"")


@trio_test(autojump=True)
async def test_a_shard_goes_from_store_to_store(tmp_path: Path) -> None:
    source = filled(tmp_path / "a")
    target = ShardStore(tmp_path / "b", max_bytes=10**6)
    full = iter([True, False, True])

    def send(peer: PeerId, question: Get) -> None:
        if next(full, False):
            raise SendQueueFull("full")
        blob = answer_get(question, source.read_range)
        for noise in (
            dataclasses.replace(blob, request=blob.request + 1000),
            dataclasses.replace(blob, offset=blob.offset + 1),
            dataclasses.replace(blob, digest=bytes(32)),
        ):
            desk.arrived(peer, noise)
        desk.arrived(OTHER, dataclasses.replace(blob, body=b"forged"))
        desk.arrived(peer, blob)
        desk.arrived(peer, blob)

    desk = BlobDesk(send)
    await fetch_shard(target, desk.source(HOLDER), DIGEST, len(BODY))
    assert target.read(DIGEST.hex()) == BODY


@trio_test(autojump=True)
async def test_a_busy_holder_is_asked_again_and_an_ignorant_one_is_not() -> None:
    answers = iter([BlobError.BUSY, BlobError.BUSY, BlobError.UNKNOWN])
    asked = []

    def send(peer: PeerId, question: Get) -> None:
        asked.append(question)
        desk.arrived(
            peer,
            Blob(
                request=question.request,
                digest=question.digest,
                offset=question.offset,
                total=0,
                error=next(answers),
                body=b"",
            ),
        )

    desk = BlobDesk(send)
    with pytest.raises(ShardUnavailable, match="has no"):
        await desk.source(HOLDER).read(DIGEST, 0, 10)
    assert len({question.request for question in asked}) == 3
    with trio.move_on_after(5) as scope:
        await BlobDesk(lambda *_: None).source(HOLDER).read(DIGEST, 0, 10)
    assert scope.cancelled_caught


@trio_test(autojump=True)
async def test_a_backbone_names_who_else_has_it() -> None:
    records = [record_of(identity_of(n), Role.WORKER) for n in ("one", "two")]
    bodies = {
        b"a" * 32: [record.encoded for record in records],
        b"b" * 32: [],
        b"c" * 32: [records[0].encoded[:-1] + b"!"],  # B39: a signature that is wrong
    }

    def send(peer: PeerId, question: Get) -> None:
        assert (question.offset, question.length) == (0, 0)
        body = bodies.get(question.digest)
        known = [] if body is None else body
        answer = busy_blob(question) if body is None else holders_blob(question, known)
        desk.arrived(peer, answer)

    desk = BlobDesk(send)
    assert await desk.holders(HOLDER, b"a" * 32) == records
    for other in (b"b", b"c", b"d"):
        assert await desk.holders(HOLDER, other * 32) == []


@trio_test(autojump=True)
async def test_a_placement_is_had_by_asking_and_only_of_the_model_meant() -> None:
    told = EXAMPLES["placement"]
    assert isinstance(told, Placement)
    asked: list[Get] = []

    def send(peer: PeerId, question: Get) -> None:
        asked.append(question)
        good = placement_blob(question, told)
        junk = dataclasses.replace(good, body=b"junk")
        other = holders_blob(question, ())
        desk.arrived(peer, [good, good, junk, other][len(asked) - 1])

    desk = BlobDesk(send)
    assert await desk.placement(HOLDER, told.manifest_hash) == told
    assert await desk.placement(HOLDER, b"x" * 32) is None
    for _ in range(2):
        assert await desk.placement(HOLDER, told.manifest_hash) is None
