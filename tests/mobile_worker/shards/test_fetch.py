"""Fetching: windows, timeouts, resumption, verification."""

import hashlib
from pathlib import Path

import pytest
import trio

from mobile_worker.shards.errors import ShardCorrupt, ShardUnavailable, StoreFull
from mobile_worker.shards.fetch import FetchSettings, Piece, fetch_blob, fetch_shard
from mobile_worker.shards.store import ShardStore
from mobile_worker.shards.transfer import PIECE_BYTES
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test

BODY = b"".join(n.to_bytes(4, "big") for n in range(41_000))[: 10 * PIECE_BYTES + 77]
DIGEST = hashlib.sha256(BODY).digest()


class Holder:
    """A source in memory that can lose answers and stop."""

    def __init__(self, body: bytes = BODY, *, answers: int = 10**9) -> None:
        self.body = body
        self.answers = answers
        self.lose: set[int] = set()
        self.asked: list[int] = []
        self.flying = self.most_flying = 0

    async def read(self, digest: bytes, offset: int, length: int) -> Piece:
        self.asked.append(offset)
        self.flying += 1
        self.most_flying = max(self.most_flying, self.flying)
        try:
            await trio.sleep(0.05 + offset * 1e-9)
            if offset in self.lose:
                self.lose.discard(offset)
                await trio.sleep_forever()
            if self.answers <= 0:
                await trio.sleep_forever()
            self.answers -= 1
        finally:
            self.flying -= 1
        if digest != DIGEST:
            raise ShardUnavailable("not held")
        return Piece(total=len(self.body), body=self.body[offset : offset + length])


@trio_test(autojump=True)
async def test_a_shard_arrives_whole(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=10**6)
    holder = Holder()
    await fetch_shard(store, holder, DIGEST, len(BODY))
    assert store.read(DIGEST.hex()) == BODY
    assert holder.most_flying == 8
    assert len(holder.asked) == 11
    await fetch_shard(store, holder, DIGEST, len(BODY))
    assert len(holder.asked) == 11


@trio_test(autojump=True)
async def test_a_lost_answer_is_asked_for_again(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=10**6)
    holder = Holder()
    holder.lose = {0, 5 * PIECE_BYTES, 10 * PIECE_BYTES}
    await fetch_shard(store, holder, DIGEST, len(BODY))
    assert store.read(DIGEST.hex()) == BODY
    assert len(holder.asked) == 14


@trio_test(autojump=True)
async def test_a_fetch_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=10**6)
    silent = Holder(answers=4)
    started = trio.current_time()
    with pytest.raises(ShardUnavailable, match="no answer"):
        await fetch_shard(store, silent, DIGEST, len(BODY))
    assert trio.current_time() - started < 60

    again = ShardStore(tmp_path, max_bytes=10**6)
    holder = Holder()
    await fetch_shard(again, holder, DIGEST, len(BODY))
    assert min(holder.asked) == 4 * PIECE_BYTES
    assert again.read(DIGEST.hex()) == BODY


@trio_test(autojump=True)
async def test_cancelling_keeps_what_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    store = ShardStore(tmp_path, max_bytes=10**6)
    with trio.move_on_after(1) as scope:
        silent, settings = Holder(answers=2), FetchSettings(window=2)
        await fetch_shard(store, silent, DIGEST, len(BODY), settings=settings)
    assert scope.cancelled_caught
    assert store.used_bytes == 2 * PIECE_BYTES
    holder = Holder()
    await fetch_shard(store, holder, DIGEST, len(BODY))
    assert min(holder.asked) == 2 * PIECE_BYTES


@trio_test(autojump=True)
async def test_other_bytes_are_refused_and_removed(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=10**6)
    liar = Holder(bytes(len(BODY)))
    with pytest.raises(ShardCorrupt):
        await fetch_shard(store, liar, DIGEST, len(BODY))
    assert store.used_bytes == 0
    await fetch_shard(store, Holder(), DIGEST, len(BODY))


@trio_test(autojump=True)
async def test_another_size_or_no_room_ends_at_once(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=10**6)
    with pytest.raises(ShardUnavailable, match="the source holds"):
        await fetch_shard(store, Holder(BODY[:-1]), DIGEST, len(BODY))
    with pytest.raises(ShardUnavailable, match="not held"):
        await fetch_shard(store, Holder(), bytes(32), len(BODY))
    with pytest.raises(StoreFull):
        await fetch_shard(store, Holder(), DIGEST, 10**7)


@trio_test(autojump=True)
async def test_a_blob_of_unknown_size_is_bounded_and_checked() -> None:
    holder = Holder()
    holder.lose = {0, 3 * PIECE_BYTES}
    assert await fetch_blob(holder, DIGEST, max_bytes=10**6) == BODY
    assert len(holder.asked) == 13
    with pytest.raises(ShardUnavailable, match="has 163917 bytes"):
        await fetch_blob(holder, DIGEST, max_bytes=100_000)
    with pytest.raises(ShardCorrupt):
        await fetch_blob(Holder(BODY[:-1] + b"!"), DIGEST, max_bytes=10**6)
    with pytest.raises(ShardUnavailable, match="has 0 bytes"):
        await fetch_blob(Holder(b""), DIGEST, max_bytes=10**6)
    with pytest.raises(ShardUnavailable, match="no answer"):
        await fetch_blob(Holder(answers=0), DIGEST, max_bytes=10**6)
