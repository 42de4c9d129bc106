"""The store: names, resuming, verification, budget, and folders that fail."""

import errno
import hashlib
import os
from pathlib import Path

import pytest

from mobile_worker.shards import store as store_module
from mobile_worker.shards.errors import (
    BadDigest,
    ShardCorrupt,
    ShardError,
    ShardMissing,
    StoreFull,
    StoreUnusable,
)
from mobile_worker.shards.store import ShardStore, check_digest

BODY = bytes(range(256)) * 40


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def stored(store: ShardStore, body: bytes) -> str:
    digest = digest_of(body)
    part = store.begin(digest, len(body))
    part.append(body)
    part.finish()
    return digest


@pytest.fixture
def store(tmp_path: Path) -> ShardStore:
    return ShardStore(tmp_path / "shards", max_bytes=1_000_000)


def test_pieces_become_a_verified_shard(store: ShardStore) -> None:
    digest = digest_of(BODY)
    assert store.missing([digest]) == [digest]
    part = store.begin(digest, len(BODY))
    for start in range(0, len(BODY), 1000):
        assert part.position == start
        part.append(BODY[start : start + 1000])
    assert not store.has(digest)
    part.finish()
    assert store.has(digest)
    assert store.read(digest) == BODY
    assert store.read_range(digest, 100, 50) == (len(BODY), BODY[100:150])
    assert store.read_range(digest, len(BODY) - 5, 50) == (len(BODY), BODY[-5:])
    assert store.read_range(digest, len(BODY), 50) == (len(BODY), b"")
    assert store.read_range(digest, -1, 50) == (len(BODY), b"")
    assert [p.name for p in store.folder.iterdir()] == [f"{digest}.shard"]


@pytest.mark.parametrize(
    "name",
    [
        "a" * 63,
        "a" * 65,
        "A" * 64,
        "../p2pmoe-pwn",
        "../" + "a" * 61,
        "a" * 63 + "\0",
        "a" * 300,
        "a" * 64 + "\n",
        "é" * 64,
        "",
        b"a" * 64,
        None,
    ],
)
def test_b06_a_digest_is_64_lower_case_hex_digits_or_refused(
    store: ShardStore, name: str
) -> None:
    for use in (
        check_digest,
        store.has,
        store.read,
        store.discard,
        lambda d: store.read_range(d, 0, 1),
        lambda d: store.begin(d, 10),
        lambda d: store.missing([d]),
        lambda d: store.keep([d]),
    ):
        with pytest.raises(BadDigest):
            use(name)
    assert not (store.folder.parent / "p2pmoe-pwn").exists()
    assert list(store.folder.iterdir()) == []


def test_b06_a_link_out_of_the_folder_is_no_shard(tmp_path: Path) -> None:
    digest = digest_of(BODY)
    (tmp_path / "secret").write_bytes(BODY)
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / f"{digest}.shard").symlink_to(tmp_path / "secret")
    store = ShardStore(folder, max_bytes=100_000)
    assert not store.has(digest)
    (folder / f"{digest}.part").symlink_to(tmp_path / "target")
    with pytest.raises(StoreUnusable):
        store.begin(digest, len(BODY))
    assert not (tmp_path / "target").exists()


def test_wrong_bytes_never_become_a_shard(store: ShardStore) -> None:
    digest = digest_of(BODY)
    part = store.begin(digest, len(BODY))
    part.append(b"\0" * len(BODY))
    with pytest.raises(ShardCorrupt, match="came as"):
        part.finish()
    assert not store.has(digest)
    assert list(store.folder.iterdir()) == []
    assert store.used_bytes == 0
    stored(store, BODY)


def test_a_part_too_short_or_too_long_is_refused(store: ShardStore) -> None:
    part = store.begin(digest_of(BODY), len(BODY))
    part.append(BODY[:-1])
    with pytest.raises(ShardCorrupt, match="longer"):
        part.append(b"xy")
    with pytest.raises(ShardCorrupt):
        part.finish()


def test_a_partial_fetch_resumes_after_a_restart(tmp_path: Path) -> None:
    digest = digest_of(BODY)
    first = ShardStore(tmp_path, max_bytes=100_000)
    part = first.begin(digest, len(BODY))
    part.append(BODY[:5000])
    with pytest.raises(ShardError, match="on its way"):
        first.begin(digest, len(BODY))
    part.abandon()
    part.abandon()
    assert first.used_bytes == 5000

    second = ShardStore(tmp_path, max_bytes=100_000)
    assert second.used_bytes == 5000
    again = second.begin(digest, len(BODY))
    assert again.position == 5000
    assert second.used_bytes == len(BODY)
    again.append(BODY[5000:])
    again.finish()
    assert second.read(digest) == BODY


def test_a_part_longer_than_the_shard_starts_over(tmp_path: Path) -> None:
    digest = digest_of(BODY)
    (tmp_path / f"{digest}.part").write_bytes(BODY + b"x")
    store = ShardStore(tmp_path, max_bytes=100_000)
    assert store.begin(digest, len(BODY)).position == 0


def test_restart_keeps_the_shards(tmp_path: Path) -> None:
    digest = stored(ShardStore(tmp_path, max_bytes=100_000), BODY)
    (tmp_path / "notes.txt").write_text("not a shard")
    again = ShardStore(tmp_path, max_bytes=100_000)
    assert again.missing([digest]) == []
    assert again.read(digest) == BODY
    assert again.read_range(digest, 0, 3) == (len(BODY), BODY[:3])


def test_a_changed_file_is_found_and_removed(tmp_path: Path) -> None:
    digest = stored(ShardStore(tmp_path, max_bytes=100_000), BODY)
    path = tmp_path / f"{digest}.shard"
    path.write_bytes(BODY[:-1] + b"!")
    store = ShardStore(tmp_path, max_bytes=100_000)
    assert store.has(digest)
    with pytest.raises(ShardCorrupt):
        store.read_range(digest, 0, 3)
    assert store.missing([digest]) == [digest]
    assert not path.exists()
    stored(store, BODY)


def test_b03_a_file_cut_short_under_us_is_an_error_of_that_shard(
    store: ShardStore,
) -> None:
    digest = stored(store, BODY)
    os.truncate(store.folder / f"{digest}.shard", 4096)
    with pytest.raises(ShardCorrupt, match=f"needs {len(BODY)} bytes, has 4096"):
        store.read(digest)
    assert not store.has(digest)


def test_b03_a_file_removed_under_us_is_missing(store: ShardStore) -> None:
    digest = stored(store, BODY)
    (store.folder / f"{digest}.shard").unlink()
    with pytest.raises(ShardMissing):
        store.read(digest)
    assert not store.has(digest)


def test_room_is_made_from_the_least_recently_used_unkept(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=40)
    one, two, three, four = (bytes([n]) * 10 for n in range(4))
    names = [stored(store, body) for body in (one, two, three, four)]
    store.read(names[0])
    store.keep([names[1]])
    five = stored(store, b"5" * 10)
    held = [name for name in [*names, five] if store.has(name)]
    assert held == [names[0], names[1], names[3], five]


def test_what_can_never_fit_evicts_nothing(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=40)
    kept, other = stored(store, b"k" * 20), stored(store, b"o" * 20)
    store.keep([kept])
    with pytest.raises(StoreFull, match="of 21 bytes does not fit"):
        store.begin("0" * 64, 21)
    assert store.has(other)
    part = store.begin("1" * 64, 15)
    assert not store.has(other)
    with pytest.raises(StoreFull):
        store.begin("2" * 64, 6)
    part.abandon()
    store.begin("2" * 64, 20)


def test_stale_parts_go_before_shards(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=40)
    shard = stored(store, b"s" * 20)
    part = store.begin("1" * 64, 20)
    part.append(b"half")
    part.abandon()
    store.begin("2" * 64, 20)
    assert store.has(shard)
    assert not (tmp_path / ("1" * 64 + ".part")).exists()


def test_parts_that_wait_to_be_resumed_go_last(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=40)
    shard = stored(store, b"s" * 20)
    part = store.begin("1" * 64, 20)
    part.append(b"half")
    part.abandon()
    store.keep(["1" * 64])
    store.begin("2" * 64, 20)
    assert not store.has(shard)
    assert (tmp_path / ("1" * 64 + ".part")).exists()


def test_what_was_leased_longest_ago_goes_first_after_a_restart_too(
    tmp_path: Path,
) -> None:
    store = ShardStore(tmp_path, max_bytes=100)
    one, two, three = (stored(store, bytes([n]) * 10) for n in range(3))
    for at, name in enumerate((one, two, three)):
        os.utime(tmp_path / f"{name}.shard", (at, at))
    store = ShardStore(tmp_path, max_bytes=30)
    store.keep([one, two])
    store.keep([two])  # the lease on `one` has ended just now
    again = ShardStore(tmp_path, max_bytes=30)
    again.begin("f" * 64, 5)
    assert [again.has(name) for name in (one, two, three)] == [True, False, True]
    store.keep([])
    again = ShardStore(tmp_path, max_bytes=100)
    assert list(again._sizes)[-1] == one


def test_a_file_that_another_program_put_there_is_found(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=100)
    body = b"put there"
    name = hashlib.sha256(body).hexdigest()
    assert not store.look(name)
    (tmp_path / f"{name}.shard").write_bytes(body)
    assert not store.has(name)
    assert store.look(name)
    assert store.check(name) == len(body)
    other = "1" * 64
    (tmp_path / f"{other}.shard").symlink_to(tmp_path / f"{name}.shard")
    assert not store.look(other)  # B06


def test_a_check_reads_once_and_removes_what_is_wrong(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=100)
    name = stored(store, b"right")
    again = ShardStore(tmp_path, max_bytes=100)
    (tmp_path / f"{name}.shard").write_bytes(b"wrong")
    with pytest.raises(ShardCorrupt):
        again.check(name)
    assert not again.has(name)
    with pytest.raises(ShardMissing):
        again.check(name)


def test_clearing_leaves_what_is_kept_and_what_is_written(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=100)
    kept, other = stored(store, b"k" * 10), stored(store, b"o" * 20)
    store.keep([kept])
    part = store.begin("1" * 64, 20)
    part.append(b"half")
    stale = store.begin("2" * 64, 20)
    stale.append(b"five5")
    stale.abandon()
    assert store.clear() == (2, 25)
    assert store.has(kept)
    assert not store.has(other)
    part.append(b"on")
    part.abandon()
    assert sorted(each.suffix for each in tmp_path.iterdir()) == [".part", ".shard"]


def test_a_full_disk_is_one_line_and_keeps_the_part(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    part = store.begin(digest_of(BODY), len(BODY))
    part.append(BODY[:100])
    monkeypatch.setattr(store_module, "write_at", full)
    with pytest.raises(StoreFull, match="no space left") as caught:
        part.append(BODY[100:])
    assert "\n" not in str(caught.value)
    assert part.position == 100
    part.abandon()


def test_a_sync_that_fails_leaves_a_part(
    store: ShardStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    part = store.begin(digest_of(BODY), len(BODY))
    part.append(BODY)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(StoreUnusable, match="input/output"):
            part.finish()
    assert not store.has(part.digest)
    again = store.begin(part.digest, len(BODY))
    assert again.position == len(BODY)
    again.finish()
    assert store.read(part.digest) == BODY


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="cannot use the shard folder"):
        ShardStore(tmp_path / "file", max_bytes=1)
    with pytest.raises(StoreUnusable):
        ShardStore(tmp_path / "file" / "below", max_bytes=1)


def test_a_read_only_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", read_only)
    with pytest.raises(StoreUnusable, match="read-only file system"):
        ShardStore(tmp_path, max_bytes=1)
