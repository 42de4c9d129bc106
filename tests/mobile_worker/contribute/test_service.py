"""A whole worker on a memory network: joining, serving, restarting, ending."""

from pathlib import Path

import numpy as np
import pytest
import trio

from ledger.voucher import Voucher
from mobile_worker import messages
from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.contribute.errors import (
    ArithmeticDiffers,
    MarketRefused,
    NetworkUnfit,
)
from mobile_worker.contribute.service import Hooks, contribute
from mobile_worker.errors import IdentityInUse
from mobile_worker.expert_id import ExpertId
from mobile_worker.links.memory import MemoryNetwork
from mobile_worker.messages import OutputError
from mobile_worker.shards.errors import StoreUnusable
from tests.support.flawed_kernel import OneBitKernel
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test
from tests.support.worker_stage import Stage, open_stage, proven


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


def n_gets(stage: Stage) -> int:
    return sum(bool(get.length) for get in stage.backbone.all(messages.Get))


@trio_test(autojump=True)
async def test_from_offer_to_filed_voucher(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker, tab = await stage.serving()
        (offer,) = stage.market.all(messages.Offer)
        assert (offer.device_class, offer.domain) == (1, "here")
        assert offer.memory_bytes == 48 << 20
        dispatch = stage.model.dispatch(
            0, ((0, (0, 1)), (3, (1,))), n_rows=2, tab=tab, layer=2
        )
        output = await stage.ask(worker, dispatch)
        assert output.error == OutputError.OK
        _, held = stage.model.held()
        kernel, rows = NumpyKernel(), stage.model.rows(2)
        expected = kernel.expert(held.weights[ExpertId(2, 0)], rows, Profile.R16)
        expected += kernel.expert(
            held.weights[ExpertId(2, 3)], rows.take(np.array([1])), Profile.R16
        )
        assert output.results == expected
        stage.accept(worker, tab, (0, 1))
        file = await stage.ledger.hear(messages.File)
        voucher = Voucher.parse(file.voucher)
        assert (voucher.leaves, voucher.rows, voucher.tab) == (2, 3, tab)
        assert voucher.worker == running.started[0].peer_id == worker
        await trio.sleep(1)
        states = list(dict.fromkeys(running.states))
        assert states == ["starting", "idle_no_demand", "ready", "serving"]
        facts = running.facts[-1]
        assert (facts.served, facts.accepted, facts.signed) == (2, 2, 2)
    assert running.settled == [True]


@trio_test(autojump=True)
async def test_a_restart_serves_from_the_store_without_fetching(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker():
            first = await stage.held()
        n_before = n_gets(stage)
        assert n_before > 0
        stage.market.heard.clear()
        async with stage.worker():
            second = await stage.held()
            assert first == second
        assert n_gets(stage) == n_before
        assert stage.market.all(messages.Get) == []


@trio_test(autojump=True)
async def test_a_corrupted_shard_is_fetched_anew(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker():
            await stage.held()
        n_before = n_gets(stage)
        digest = stage.model.digest(ExpertId(1, 2)).hex()
        path = tmp_path / "worker" / "shards" / f"{digest}.shard"
        body = bytearray(path.read_bytes())
        body[100] ^= 1
        path.write_bytes(bytes(body))
        stage.market.heard.clear()
        async with stage.worker():
            await stage.held()
        assert n_gets(stage) == n_before + 1
        assert path.read_bytes() == stage.model.shards[ExpertId(1, 2)]


@trio_test(autojump=True)
async def test_a_partly_fetched_model_goes_on(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        missing = stage.model.digest(ExpertId(2, 1))
        stage.given[missing] = b"other bytes"
        async with stage.worker() as running:
            await trio.sleep(20)
            assert running.states[-1] == "fetching"
            assert "the source holds" in running.statuses[-1].reason
            del stage.given[missing]
            await stage.held()
            await trio.sleep(2)
            assert running.states[-1] == "ready"


@trio_test(autojump=True)
async def test_a_worker_whose_arithmetic_differs_does_not_start(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        flawed = OneBitKernel(decoded_cache_bytes=0)
        with pytest.raises(ArithmeticDiffers):
            await contribute(
                stage.settings(),
                trio.Event(),
                Hooks(prove=lambda settings: proven(settings, flawed)),
            )
        assert stage.market.heard == []


@trio_test(autojump=True)
async def test_b34_a_refusal_of_the_market_ends_it_with_its_words(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        stage.refuse = "the self-test digest differs"
        with pytest.RaisesGroup(MarketRefused, flatten_subgroups=True) as caught:
            async with stage.worker() as running:
                await running.ended.wait()
        (error,) = caught.value.exceptions
        assert "self-test digest differs" in str(error)


@trio_test(autojump=True)
async def test_two_processes_with_one_key_are_one_too_many(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker():
        await stage.held()
        with pytest.raises(IdentityInUse) as caught:
            await contribute(stage.settings(), trio.Event())
        assert "in use" in str(caught.value)
        assert "\n" not in str(caught.value)


@trio_test(autojump=True)
async def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        (tmp_path / "worker").mkdir()
        (tmp_path / "worker" / "shards").write_text("a file")
        with pytest.raises(StoreUnusable, match="cannot use the shard folder"):
            await contribute(stage.settings(), trio.Event())


@trio_test(autojump=True)
async def test_a_relay_without_a_market_is_refused(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        nowhere = MemoryNetwork()
        with pytest.raises(NetworkUnfit, match="no market"):
            await contribute(
                stage.settings(),
                trio.Event(),
                Hooks(open_node=nowhere.open_node, prove=proven),
            )


@trio_test(autojump=True)
async def test_stopped_before_it_has_joined_it_ends_at_once(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stop = trio.Event()
        stop.set()
        assert await contribute(stage.settings(), stop)
        assert stage.market.heard == []


@trio_test(autojump=True)
async def test_draining_finishes_signs_files_and_gives_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        async with stage.worker() as running:
            worker, tab = await stage.serving()
            dispatch = stage.model.dispatch(0, tab=tab)
            await stage.ask(worker, dispatch)
            running.stop.set()
            await stage.backbone.hear(messages.Draining)
            refused = await stage.ask(worker, stage.model.dispatch(1, tab=tab))
            assert refused.error == OutputError.DRAINING
            stage.accept(worker, tab, (0, 0))
            await running.ended.wait()
        assert running.settled == [True]
        vouchers = [Voucher.parse(f.voucher) for f in stage.ledger.all(messages.File)]
        assert vouchers[-1].final
        assert vouchers[-1].leaves == 1
        (release,) = stage.market.all(messages.Release)
        assert (release.lease, release.experts) == (b"lease-01", ())
        assert running.states[-1] == "draining"


@trio_test(autojump=True)
async def test_draining_ends_in_time_even_if_nobody_signs(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.signs = False
        async with stage.worker(drain_s=5.0) as running:
            worker, tab = await stage.serving()
            await stage.ask(worker, stage.model.dispatch(0, tab=tab))
            stage.accept(worker, tab, (0, 0))
            await trio.sleep(3)
            started = trio.current_time()
            running.stop.set()
            await running.ended.wait()
            assert trio.current_time() - started < 6
        assert running.settled == [False]
        stage.signs = True
        stage.market.heard.clear()
        async with stage.worker():
            await stage.serving()
            file = await stage.ledger.hear(messages.File)
            assert Voucher.parse(file.voucher).tab == tab


@trio_test(autojump=True)
async def test_kill_and_restart_files_the_last_doubly_signed_voucher(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        stage.files = False
        async with stage.worker(drain_s=0.1):
            worker, tab = await stage.serving()
            await stage.ask(worker, stage.model.dispatch(0, tab=tab))
            stage.accept(worker, tab, (0, 0))
            await stage.ledger.hear(messages.File)
        stage.files = True
        stage.ledger.heard.clear()
        async with stage.worker():
            file = await stage.ledger.hear(messages.File)
            assert Voucher.parse(file.voucher).tab == tab
