"""Shards under /blob/: whole, in parts, of the folder or brought in; within limits."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest
import trio

from mobile_worker.shards.store import ShardStore
from p2pmoe.network import blobs
from p2pmoe.network.blobs import BlobPages, Filled
from relay.pages import PageRequest, PageResponse
from tests.support.inline_threads import inline_threads
from tests.support.relays import plain_config, running_relay
from tests.support.trio_test import trio_test

BODY = hashlib.shake_256(b"a shard").digest(700_000)
NAME = hashlib.sha256(BODY).hexdigest()


def put(folder: Path, body: bytes = BODY, name: str = NAME) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.shard").write_bytes(body)


def pages_of(folder: Path, **changes: object) -> BlobPages:
    return BlobPages(ShardStore(folder, max_bytes=10 << 20), **changes)


def asked(
    name: str = NAME,
    headers: Mapping[str, str] | None = None,
    *,
    method: str = "GET",
    remote: str = "192.0.2.1",
) -> PageRequest:
    return PageRequest(
        method=method,
        path=f"/blob/{name}",
        query="",
        headers=headers or {},
        remote=remote,
        forwarded=False,
    )


async def body_of(answer: PageResponse) -> bytes:
    assert answer.chunks is not None
    body = b"".join([chunk async for chunk in answer.chunks])
    answer.on_close()
    assert len(body) == answer.length
    return body


@trio_test
async def test_a_relay_hands_out_what_its_folder_holds(tmp_path: Path) -> None:
    put(tmp_path)
    pages = pages_of(tmp_path)
    async with running_relay(plain_config(), pages=pages.pages) as relay:
        base = f"http://127.0.0.1:{relay.port}"
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            whole = await client.get(f"/blob/{NAME}")
            assert (whole.status_code, whole.content) == (200, BODY)
            assert "immutable" in whole.headers["cache-control"]
            told = {"Range": "bytes=600000-"}
            part = await client.get(f"/blob/{NAME}", headers=told)
            assert (part.status_code, part.content) == (206, BODY[600_000:])
            assert part.headers["content-range"] == "bytes 600000-699999/700000"
            known = {"If-None-Match": whole.headers["etag"]}
            again = await client.get(f"/blob/{NAME}", headers=known)
            assert (again.status_code, again.content) == (304, b"")
            beyond = await client.get(
                f"/blob/{NAME}", headers={"Range": "bytes=700000-"}
            )
            assert beyond.status_code == 416
            head = await client.head(f"/blob/{NAME}")
            assert head.headers["content-length"] == "700000"
            assert (await client.get(f"/blob/{'0' * 64}")).status_code == 404
            neutral = await client.get("/blob/../blobs")
            assert neutral.status_code == 404


@trio_test
async def test_what_the_operator_puts_there_later_is_found(tmp_path: Path) -> None:
    pages = pages_of(tmp_path)
    assert (await pages.answer(asked())).status == 404
    put(tmp_path)
    assert await body_of(await pages.answer(asked())) == BODY


@trio_test
async def test_b03_a_file_of_other_bytes_is_never_handed_on(tmp_path: Path) -> None:
    put(tmp_path, BODY[:-1] + b"!")
    pages = pages_of(tmp_path)
    assert (await pages.answer(asked())).status == 404
    assert not pages._store.has(NAME)


@trio_test
async def test_a_file_that_goes_while_it_is_read_ends_the_connection(
    tmp_path: Path,
) -> None:
    put(tmp_path)
    answer = await pages_of(tmp_path).answer(asked())
    assert answer.chunks is not None
    assert await anext(answer.chunks)
    (tmp_path / f"{NAME}.shard").unlink()
    with pytest.raises(trio.BrokenResourceError):
        await anext(answer.chunks)


@pytest.mark.parametrize(
    ("filled", "status"), [(Filled.UNDER_WAY, 503), (Filled.NO, 404)]
)
@trio_test
async def test_what_is_not_here_is_brought_in_or_not(
    tmp_path: Path, filled: Filled, status: int
) -> None:
    async def fill(_name: str) -> Filled:
        return filled

    answer = await pages_of(tmp_path, fill=fill).answer(asked())
    assert answer.status == status
    assert ("Retry-After" in answer.headers) == (status == 503)


@trio_test
async def test_what_was_brought_in_is_the_answer(tmp_path: Path) -> None:
    async def fill(name: str) -> Filled:
        put(tmp_path, name=name)
        store.look(name)
        return Filled.HERE

    store = ShardStore(tmp_path, max_bytes=10 << 20)
    answer = await BlobPages(store, fill).answer(asked())
    assert await body_of(answer) == BODY


@trio_test
async def test_one_address_has_four_answers_at_once_and_all_have_48(
    tmp_path: Path,
) -> None:
    put(tmp_path)
    pages = pages_of(tmp_path)
    held = [await pages.answer(asked()) for _ in range(4)]
    assert (await pages.answer(asked())).status == 503
    assert (await pages.answer(asked("0" * 64))).status == 503
    held[0].on_close()
    assert (await pages.answer(asked())).status == 200
    for number in range(44):
        other = await pages.answer(asked(remote=f"198.51.100.{number}"))
        assert other.status == 200
    assert (await pages.answer(asked(remote="203.0.113.1"))).status == 503


@trio_test(autojump=True)
async def test_an_address_that_took_too_much_comes_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline_threads(monkeypatch)
    monkeypatch.setattr(blobs, "_BURST_BYTES", 1_000_000)
    monkeypatch.setattr(blobs, "_BYTES_S", 10_000)
    put(tmp_path)
    pages = pages_of(tmp_path)
    for status in (200, 200, 503):
        answer = await pages.answer(asked())
        assert answer.status == status
        answer.on_close()
    head = await pages.answer(asked(method="HEAD"))
    assert head.status == 200
    await trio.sleep(60)
    assert (await pages.answer(asked())).status == 200
