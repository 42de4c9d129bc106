"""A backbone without experts: real processes, the same tokens, no expert on disk."""

import hashlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from mobile_worker.shards.manifest import Manifest, parse_manifest
from p2pmoe.demo.network import api_of, wait_until_ready
from p2pmoe.local_network.network import (
    START_WITHIN_S,
    WorkerOptions,
    start_relay,
    start_worker,
)
from p2pmoe.local_network.processes import Child, Stage
from p2pmoe.weights.model_file import open_model
from p2pmoe.weights.public_files import open_public, public_manifest
from tests.support.file_server import FileServer, serving
from tests.support.injector.conditions import OFFICE
from tests.support.injector.proxy import injected
from tests.support.ports import reserved_port
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

POCKET = Path(__file__).resolve().parents[2] / "p2pmoe/models/pocket-q4_0.gguf"
PROMPT = "It was a dark night, and the old man"
BODY = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0.8, "seed": 5}
WORKERS = ("edge-1", "edge-2")
STOP_WITHIN_S = 60.0
SLOW_BYTES_S = 100_000  # the largest piece takes half a minute, the smallest no time
_ALONE: list[int] = []  # of one process, once for all tests here


def publish(folder: Path, url: str) -> Manifest:
    """Put the model and its manifest, whose address is `url`, into a folder."""
    folder.mkdir(exist_ok=True)
    if not (folder / POCKET.name).exists():
        os.link(POCKET, folder / POCKET.name) if _same_disk(folder) else _copy(folder)
    model, files = open_public(folder / POCKET.name, [url])
    with model:
        manifest = public_manifest(model, files, b"")
    (folder / "m.manifest").write_bytes(manifest.encode())
    return manifest


def _same_disk(folder: Path) -> bool:
    return folder.stat().st_dev == POCKET.stat().st_dev


def _copy(folder: Path) -> None:
    (folder / POCKET.name).write_bytes(POCKET.read_bytes())


def expert_parts() -> list[bytes]:
    """Return some bytes of each part of each expert of the model."""
    with open_model(POCKET) as model:
        opened, files = open_public(POCKET, ["https://nowhere.example/"])
        with opened:
            manifest = public_manifest(opened, files, b"")
        spans = [span for entry in manifest.experts for span in entry.ranges]
        return [model.read_range(at + n // 2, 64) for at, n in spans]


def assert_no_experts(folder: Path) -> None:
    """Look for expert bytes in every file of a folder."""
    parts = expert_parts()
    held = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.suffix == ".base" for path in held)
    for path in held:
        body = path.read_bytes()
        assert not any(part in body for part in parts), path


async def tokens_of(url: str) -> list[int]:
    async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
        answer = await client.post(f"{url}/v1/completions", json=BODY)
        answer.raise_for_status()
        return list(answer.json()["p2pmoe"]["tokens"])


async def alone(stage: Stage) -> list[int]:
    """Return the tokens of a single process that has the whole model."""
    if not _ALONE:
        child = await stage.start(
            "alone",
            [
                *("serve", "pocket", "--listen", "127.0.0.1:0"),
                *("--data", str(stage.folder / "alone")),
            ],
        )
        _ALONE.extend((await answers(child))[0])
        await child.stop(10)
    return _ALONE


async def start_base_only(stage: Stage, invite: str, url: str, *options: str) -> Child:
    return await stage.start(
        "base",
        [
            *("serve", "--manifest", url, "--listen", "127.0.0.1:0"),
            *("--data", str(stage.folder / "base"), "--invite", invite, *options),
        ],
    )


@asynccontextmanager
async def network(folder: Path, n_workers: int = 1) -> AsyncIterator[tuple[Stage, str]]:
    """Have a relay and workers, each with room for all experts."""
    stage = Stage(folder)
    try:
        relay = await start_relay(stage, opening_credit=1000)
        for name in WORKERS[:n_workers]:
            options = WorkerOptions(memory="24M")
            worker = await start_worker(stage, name, relay.invite, options)
            await worker.ready(START_WITHIN_S)
        yield stage, relay.invite
    finally:
        await stage.stop_all()


async def answers(backbone: Child) -> tuple[list[int], dict[str, Any]]:
    """Wait until a backbone is ready; return its tokens and last readiness."""
    api = await api_of(backbone)
    await wait_until_ready(api, backbone, lambda _label, _share: None)
    found = await tokens_of(api.url), await api.readiness()
    await api.aclose()
    return found


@trio_test
async def test_tokens_are_those_of_one_process_and_no_expert_is_on_the_disk(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "public") as server:
        manifest = publish(tmp_path / "public", server.url)
        async with network(tmp_path, n_workers=2) as (stage, invite):
            expected = await alone(stage)
            url = f"{server.url}m.manifest"
            backbone = await start_base_only(stage, invite, url)
            tokens, _ = await answers(backbone)
            assert tokens == expected
            assert await backbone.stop(STOP_WITHIN_S) == 0
            assert_no_experts(stage.folder / "base")
            server.requests.clear()
            again = await start_base_only(stage, invite, url)
            assert (await answers(again))[0] == expected
            # What was fetched is checked and used.
            assert base_ranges(server, manifest) == []
            assert_no_experts(stage.folder / "base")


@contextmanager
def slow_server(folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """Serve a folder slowly from a process of its own."""
    command = [sys.executable, "-m", "tests.support.file_server", str(folder)]
    with subprocess.Popen(
        [*command, str(port), str(SLOW_BYTES_S)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert int(process.stdout.readline()) == port
            yield process
        finally:
            process.kill()


@trio_test
async def test_a_download_that_was_killed_goes_on(tmp_path: Path) -> None:
    public = tmp_path / "public"
    public.mkdir()
    with reserved_port() as port, slow_server(public, port) as first:
        manifest = publish(public, f"http://127.0.0.1:{port}/")
        name = hashlib.sha256(manifest.encode()).hexdigest()
        url = f"http://127.0.0.1:{port}/m.manifest#{name}"
        async with network(tmp_path) as (stage, invite):
            backbone = await start_base_only(stage, invite, url)
            part = stage.folder / "base" / "base" / f"{name[:32]}.base.part"
            await until_something_is_in(part)
            first.kill()  # the server, in the middle of an answer
            first.wait()
            backbone.process.kill()  # and then the backbone
            await backbone.process.wait()
            with serving(public, port) as server:
                again = await start_base_only(stage, invite, url)
                tokens, _ = await answers(again)
            fetched = sum(map(size, base_ranges(server, manifest)))
            assert fetched < sum(piece.n_bytes for piece in manifest.base)
            assert ("m.manifest", "") not in server.requests  # kept, and pinned
            assert tokens == await alone(stage)
            assert_no_experts(stage.folder / "base")


def size(asked: str) -> int:
    first, last = asked.removeprefix("bytes=").split("-")
    return int(last) - int(first) + 1


def base_ranges(server: FileServer, manifest: Manifest) -> list[str]:
    """Return the ranges of the base that a server was asked for."""
    found = []
    for _, asked in server.requests:
        first = int(asked.removeprefix("bytes=").split("-")[0]) if asked else -1
        if any(piece.offset <= first < piece.end for piece in manifest.base):
            found.append(asked)
    return found


async def until_something_is_in(part: Path) -> None:
    path = trio.Path(part)
    with trio.fail_after(60):  # of a file, which tells nobody
        while not (await path.exists() and any(await path.read_bytes())):  # noqa: ASYNC110
            await trio.sleep(0.02)


@trio_test
async def test_over_an_office_link_with_the_hottest_experts_kept(
    tmp_path: Path,
) -> None:
    public = tmp_path / "public"
    with serving(public) as server:
        async with (
            injected(*server.server_address[:2], OFFICE) as link,
            network(tmp_path) as (stage, invite),
        ):
            publish(public, f"http://127.0.0.1:{link.port}/")
            url = f"http://127.0.0.1:{link.port}/m.manifest"
            backbone = await start_base_only(stage, invite, url, "--ram", "60M")
            tokens, _ = await answers(backbone)
            assert tokens == await alone(stage)
            assert parse_manifest((public / "m.manifest").read_bytes()).experts
            assert_no_experts(stage.folder / "base")


def test_a_server_of_files_knows_ranges(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"0123456789")
    with serving(tmp_path) as server, httpx.Client(trust_env=False) as client:
        assert isinstance(server, FileServer)
        part = client.get(server.url + "m", headers={"Range": "bytes=2-4"})
        assert (part.status_code, part.content) == (206, b"234")
        assert part.headers["content-range"] == "bytes 2-4/10"
        assert client.get(server.url + "m").content == b"0123456789"
        assert client.get(server.url + "n").status_code == 404
