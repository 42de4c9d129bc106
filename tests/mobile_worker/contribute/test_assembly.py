"""Which part knows which: the seams that only the whole shows."""

from pathlib import Path

import pytest
import trio

from mobile_worker import messages
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.messages import OutputError
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import RATE_MACS_S, open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@trio_test(autojump=True)
async def test_the_offer_says_what_was_set_and_measured(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker(hub=True, domain="rack-7", disk_bytes=5 << 20):
            offer = await stage.market.hear(messages.Offer)
            assert (offer.device_class, offer.domain) == (0, "rack-7")
            assert (offer.disk_bytes, offer.rate_macs_s) == (5 << 20, RATE_MACS_S)


@trio_test(autojump=True)
async def test_a_tab_whose_model_is_gone_serves_nothing(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        worker, tab = await stage.serving()
        release = messages.Release(lease=stage.lease_id, experts=(), reason="moved")
        stage.market.node.send(worker, release)
        await trio.sleep(0.1)
        output = await stage.ask(worker, stage.model.dispatch(0, tab=tab))
        assert output.error == OutputError.NO_GRANT


class InPlaceKernel(NumpyKernel):
    """One that keeps nothing beside the weights' own bytes."""

    decoded_bytes = 0


@trio_test(autojump=True)
async def test_a_kernel_that_keeps_nothing_leaves_all_memory_to_experts(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker(kernel=InPlaceKernel(), memory_bytes=64 << 20):
            offer = await stage.market.hear(messages.Offer)
            assert offer.memory_bytes == 64 << 20
