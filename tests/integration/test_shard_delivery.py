"""Shards between real processes: through the relay's folder, and over a restart."""

from pathlib import Path

import pytest
import trio

from p2pmoe.contributor.client import ask_worker
from tests.support.generations import PROMPTS, texts_of_a_single_process
from tests.support.networks import network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.shard"), key=lambda path: path.stat().st_size)


def is_whole(path: Path, raw: bytes) -> bool:
    """Whether a shard has these bytes; a worker may just be putting it there."""
    try:
        return path.read_bytes() == raw
    except FileNotFoundError:
        return False


async def holds_all(folder: Path) -> bool:
    """Whether a worker holds what it is leased, and that is something."""
    said = await trio.to_thread.run_sync(ask_worker, folder, "status")
    return 0 < said["experts_leased"] == said["experts_held"]


@trio_test
async def test_the_relay_hands_on_and_a_worker_starts_from_a_damaged_store(
    tmp_path: Path,
) -> None:
    texts = await trio.to_thread.run_sync(texts_of_a_single_process)
    with trio.fail_after(480):
        async with network_running(
            tmp_path, workers=("hub", "edge-1"), apart=False
        ) as network:
            # What workers were leased went through the relay's folder, once each.
            relayed = {path.name for path in shards_of(tmp_path / "net" / "blobs")}
            own = shards_of(tmp_path / "edge-1" / "shards")
            assert relayed & {path.name for path in own}

            await network.kill("edge-1")
            wrong, gone = own[-1], own[-2]
            raw = wrong.read_bytes()
            wrong.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
            gone.unlink()
            (wrong.parent / f"{'0' * 64}.part").write_bytes(b"left by somebody")
            await network.start("edge-1")
            await network.live("hub", "edge-1")
            folder = tmp_path / "edge-1"
            with trio.fail_after(120):  # leases may come one after the other
                while True:
                    is_there = is_whole(wrong, raw) and gone.exists()
                    if is_there and await holds_all(folder):
                        break
                    await trio.sleep(0.1)
            assert (await network.answer(PROMPTS[0])).text == texts[PROMPTS[0]]
