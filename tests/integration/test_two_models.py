"""Two backbones with a model each on one network, over real processes.

Both are served by the same workers, each answer is what one process alone writes, and
each backbone pays for its own servings and for no other's.
"""

from collections import defaultdict
from pathlib import Path

import pytest
import trio

from ledger.audit import verify_ledger
from ledger.balances import balances
from ledger.database import Reader
from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.client import Completion
from p2pmoe.demo.facts import Metrics
from p2pmoe.demo.network import Api, wait_until_ready
from tests.benchmarks.synthetic_moe import SyntheticMoe, write_moe
from tests.support.generations import PROMPTS, Generation, texts_of_a_single_process
from tests.support.networks import Network, network_running
from tests.support.trio_test import trio_test

WITHIN_S = 480
CREDIT_UC = 1_000_000_000  # of each backbone, at its first grant
OTHER = SyntheticMoe(
    format=Format.Q4_0, n_layer=3, n_embd=256, n_ff=128, skew=1.0, n_context=512
)


async def started(network: Network, name: str, model: Path, *more: str) -> Api:
    """Start a further backbone; return its side once it takes requests."""
    report = await network.start(
        name,
        *("serve", str(model), "--listen", "127.0.0.1:0"),
        *("--data", str(network.folder / name), *more),
    )
    api = Api(*report["listen"])
    await wait_until_ready(api, network.child(name), lambda *_: None)
    return api


async def has_workers(api: Api) -> None:
    """Wait until a backbone takes workers for live: else it computes all by itself."""
    while True:
        metrics = Metrics(await api.metrics())
        if metrics.total("p2pmoe_worker_status", status="live"):
            return
        await trio.sleep(0.1)


async def answer(api: Api) -> Completion:
    generation = Generation()
    await generation.run(api.url, PROMPTS[0])
    return await generation.finished()


async def answer_with_workers(api: Api, text: str) -> None:
    """Ask until workers had a part in it: all might be read from disk as quickly."""
    while True:
        assert (await answer(api)).text == text
        metrics = Metrics(await api.metrics())
        if metrics.total("p2pmoe_servings_accepted_total"):
            return


@pytest.mark.slow
@trio_test
async def test_two_backbones_of_two_models_share_their_workers(tmp_path: Path) -> None:
    texts = await trio.to_thread.run_sync(texts_of_a_single_process)
    model = write_moe(tmp_path / "other.gguf", OTHER)
    workers = ("hub", "edge-1")
    with trio.fail_after(WITHIN_S):
        async with network_running(
            tmp_path, workers=workers, memory="16M", apart=False
        ) as network:
            alone = await started(network, "alone", model)
            right = (await answer(alone)).text
            await network.stop("alone")
            other = await started(
                network, "other", model, "--ram", "24M", "--invite", network.invite
            )
            await has_workers(other)
            await answer_with_workers(network.api, texts[PROMPTS[0]])
            await answer_with_workers(other, right)
            await network.stop("other")
            await network.close_the_books()
            await alone.aclose()
            await other.aclose()
    verify_books(network.ledger_folder)


def verify_books(folder: Path) -> None:
    """What each backbone has less is together what the workers have."""
    reader = Reader(folder)
    verify_ledger(reader, reader.identity)
    spent: dict[bytes, int] = defaultdict(lambda: CREDIT_UC)
    earned_uc = 0
    with reader.session() as connection:
        for line in balances(connection):
            if line.kind.startswith("client_"):
                spent[line.owner] -= line.balance_uc
            elif line.kind.startswith("worker_"):
                earned_uc += line.balance_uc
    assert len(spent) == 2
    assert all(uc > 0 for uc in spent.values())
    assert sum(spent.values()) == earned_uc
