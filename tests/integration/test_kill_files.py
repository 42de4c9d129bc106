"""A model file cut short or replaced while it serves; a worker that stands still."""

import os
import shutil
from pathlib import Path

import pytest
import trio

from p2pmoe.cli.model_path import model_path
from tests.support.generations import PROMPTS, Prompt, texts_of_a_single_process
from tests.support.networks import WORKERS, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

STANDS_S = 3.0
MAX_STALL_S = 2.0
WITHIN_S = 600


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


@trio_test
async def test_b03_a_model_file_replaced_then_cut_short_while_it_serves(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    model, other = tmp_path / "model.gguf", tmp_path / "other.gguf"
    shutil.copyfile(model_path("pocket"), model)
    other.write_bytes(bytes(1 << 20))
    with trio.fail_after(WITHIN_S):
        async with network_running(tmp_path, model=str(model)) as network:
            pid = network.child("backbone").pid
            served = tmp_path / "served.gguf"
            served.hardlink_to(model)
            generation = network.generate(PROMPTS[0])
            await generation.reached(10)
            other.rename(model)  # (c): the old inode stays
            assert (await generation.finished()).text == texts[PROMPTS[0]]
            assert (await network.answer(PROMPTS[1])).text == texts[PROMPTS[1]]

            generation = network.generate(PROMPTS[2])
            await generation.reached(10)
            os.truncate(served, 4096)  # (b): every shard on disk is lost
            assert (await generation.finished()).text == texts[PROMPTS[2]]
            for prompt in PROMPTS:
                assert (await network.answer(prompt)).text == texts[prompt]

            for name in WORKERS:  # some experts are now held by nobody
                await network.kill(name)
            generation = network.generate(PROMPTS[3])
            await trio.sleep(STANDS_S)
            assert not generation.is_over
            for name in WORKERS:
                await network.start(name)
            assert (await generation.finished()).text == texts[PROMPTS[3]]
            metrics = await network.metrics()
            assert metrics.total("p2pmoe_disk_lost_shards") > 0
            assert network.child("backbone").pid == pid
            assert network.child("backbone").is_running


@trio_test
async def test_b28_a_worker_that_stands_still_for_seconds(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    with trio.fail_after(WITHIN_S):
        async with network_running(tmp_path) as network:
            await network.answer(PROMPTS[0])
            pids = [network.child(name).pid for name in WORKERS]
            for name, prompt in zip(WORKERS, PROMPTS, strict=True):
                generation = network.generate(prompt)
                await generation.reached(8)
                network.freeze(name)
                assert (await generation.finished()).text == texts[prompt]
                await trio.sleep(STANDS_S)
                network.thaw(name)
                assert generation.longest_stall_s < MAX_STALL_S
                await network.live(*WORKERS)
            assert pids == [network.child(name).pid for name in WORKERS]
