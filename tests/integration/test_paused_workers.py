"""Pauses in a whole network: nothing is lost, and work goes on at once."""

from pathlib import Path

import pytest
import trio

from p2pmoe.backbone.withdrawn import LONGEST_TRIP_S
from p2pmoe.contributor.client import ask_worker
from tests.support.generations import PROMPTS
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

SHORT_S, LONG_S = 300.0, 3600.0
WITHIN_S = 60.0


async def told(network: Network, name: str, operation: str, **params: object) -> dict:
    folder = network.folder / name
    return await trio.to_thread.run_sync(ask_worker, folder, operation, params)


async def status_is(network: Network, name: str, status: str) -> None:
    worker = network.peers[name]
    await network.until(
        lambda metrics: bool(
            metrics.total("p2pmoe_worker_status", worker=worker, status=status)
        ),
        f"{name} {status}",
        WITHIN_S,
    )


@trio_test
async def test_a_pause_in_an_answer_costs_no_token_and_ends_in_a_round_trip(
    tmp_path: Path,
) -> None:
    prompt = PROMPTS[0]
    with trio.fail_after(300):
        async with network_running(
            tmp_path, workers=("hub", "edge-1"), apart=False
        ) as network:
            text = (await network.answer(prompt)).text
            generation = network.generate(prompt)
            await generation.reached(5)
            await told(network, "edge-1", "pause", for_s=SHORT_S)
            assert (await generation.finished()).text == text
            await status_is(network, "edge-1", "gone")
            await trio.sleep(LONGEST_TRIP_S)  # answers of before may count until then
            before = await network.calls("edge-1")
            assert (await network.answer(prompt)).text == text
            assert await network.calls("edge-1") == before
            report = await told(network, "edge-1", "status")
            assert report["state"] == "paused_user"
            assert int(str(report["experts_held"])) > 0  # it keeps its leases

            await told(network, "edge-1", "resume")
            await status_is(network, "edge-1", "live")

            await told(network, "edge-1", "pause", for_s=LONG_S)
            report = await told(network, "edge-1", "status")
            assert report["experts_held"] == 0  # and now gives them up
            await told(network, "edge-1", "resume")
            await status_is(network, "edge-1", "live")
            assert (await network.answer(prompt)).text == text
