"""kill -9 of the ledger while vouchers flow: what it acknowledged stays."""

from pathlib import Path

import pytest
import trio

from ledger.database import Reader
from ledger.periods import ALL_TIME
from ledger.statements import statement, workers
from mobile_worker.servings.filing import MAX_RETRY_S
from p2pmoe.demo.facts import Metrics
from tests.support.generations import (
    PROMPTS,
    Prompt,
    moments,
    texts_of_a_single_process,
)
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

N_KILLS = 20


@pytest.fixture(scope="module")
def texts() -> dict[Prompt, str]:
    return texts_of_a_single_process()


def stored_servings(network: Network) -> int:
    """Return how many servings the ledger's folder holds receipts for."""
    with Reader(network.ledger_folder).session() as connection:
        return sum(
            line.servings
            for worker in workers(connection)
            for line in statement(connection, worker, ALL_TIME).by_backbone
        )


def is_filed(metrics: Metrics) -> bool:
    signed = metrics.total("p2pmoe_servings_receipted_total")
    return metrics.total("p2pmoe_servings_filed_total") == signed


class Serving:
    """Answers one after another, each compared, until it is told to end."""

    def __init__(self, network: Network, texts: dict[Prompt, str]) -> None:
        self.n_answers = 0
        self.is_ending = False
        self._network = network
        self._texts = texts

    async def run(self) -> None:
        while not self.is_ending:
            prompt = PROMPTS[self.n_answers % len(PROMPTS)]
            answer = await self._network.answer(prompt)
            assert answer.text == self._texts[prompt]
            self.n_answers += 1


@trio_test
async def test_b35_what_a_killed_ledger_acknowledged_is_kept(
    tmp_path: Path, texts: dict[Prompt, str]
) -> None:
    rng = moments(35)
    with trio.fail_after(600):
        async with network_running(tmp_path) as network:
            serving = Serving(network, texts)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serving.run)
                for _ in range(N_KILLS):
                    await trio.sleep(rng.uniform(0.1, 1.5))
                    await network.kill("ledgerd")
                    await trio.sleep(0.1)  # its last answers arrive
                    metrics = await network.metrics()
                    acknowledged = metrics.total("p2pmoe_servings_filed_total")
                    stored = await trio.to_thread.run_sync(stored_servings, network)
                    assert acknowledged <= stored
                    await network.start("ledgerd")
                serving.is_ending = True
            assert serving.n_answers >= N_KILLS // 4
            what = "all that is signed is filed"
            await network.until(is_filed, what, within_s=2 * MAX_RETRY_S)
            books = await network.close_the_books()
            assert books.unsigned == 0
            assert books.accepted == books.n_receipts
