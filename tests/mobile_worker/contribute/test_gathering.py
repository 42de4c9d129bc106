"""From leased to held: what can go wrong on the way."""

import hashlib
from dataclasses import replace
from pathlib import Path

import msgpack
import pytest
import trio

from mobile_worker import messages
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.model_files import ModelFilePart
from tests.support.inline_threads import inline_threads
from tests.support.small_model import SmallModel, small_model
from tests.support.trio_test import trio_test
from tests.support.worker_stage import open_stage


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


async def given_back(stage, n: int) -> list[messages.Release]:
    with trio.fail_after(120):
        while len(stage.market.all(messages.Release)) < n:
            await stage.market.news.wait()
    return stage.market.all(messages.Release)


@trio_test(autojump=True)
async def test_b15_what_does_not_fit_into_memory_is_given_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        size = len(stage.model.shards[ExpertId(1, 0)])
        memory = 5 * size * 4 // 3 + 4
        async with stage.worker(memory_bytes=memory) as running:
            releases = await given_back(stage, 3)
            await trio.sleep(2)
            assert running.facts[-1].n_held == 5
            assert running.states[-1] == "ready"
            assert all("do not fit" in release.reason for release in releases)
            assert all(len(release.experts) == 1 for release in releases)


@trio_test(autojump=True)
async def test_what_does_not_fit_on_disk_is_given_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_stage(tmp_path) as stage:
        size = len(stage.model.shards[ExpertId(1, 0)])
        disk = len(stage.model.manifest.encode()) + 3 * size
        async with stage.worker(disk_bytes=disk) as running:
            releases = await given_back(stage, 5)
            await trio.sleep(2)
            assert running.facts[-1].n_held == 3
            assert all("does not fit" in release.reason for release in releases)
    warned = [r for r in caplog.records if r.levelname == "WARNING"]
    told = [r for r in warned if "given back" in r.message]
    assert len(told) == 1  # of many of a kind, people hear of the first


@trio_test(autojump=True)
async def test_a_format_that_is_not_known_is_given_back(tmp_path: Path) -> None:
    model = small_model()
    layout = replace(model.manifest.layouts[0], gate_format=int(Format.IQ4_XS))
    strange = SmallModel(replace(model.manifest, layouts=(layout,)), model.shards)
    async with open_stage(tmp_path, model=strange) as stage, stage.worker() as running:
        releases = await given_back(stage, 8)
        assert len({release.experts for release in releases}) == 8
        await trio.sleep(1)
        assert running.facts[-1].n_leased == 0


@trio_test(autojump=True)
async def test_an_expert_the_manifest_lacks_is_given_back(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        stage.leased = (*stage.leased, ExpertId(0, 0))
        async with stage.worker() as running:
            (release,) = await given_back(stage, 1)
            assert release.experts == (ExpertId(0, 0),)
            await trio.sleep(1)
            assert running.facts[-1].n_held == 8


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (b"this is no manifest", "manifest is malformed"),
        (msgpack.packb([4, *range(9)]), "manifest version 4 is not 3: a newer"),
    ],
)
@trio_test(autojump=True)
async def test_a_manifest_that_is_none_is_given_back(
    tmp_path: Path, blob: bytes, says: str
) -> None:
    model = small_model()

    class Other(SmallModel):
        name = hashlib.sha256(blob).digest()

    other = Other(model.manifest, model.shards)
    async with open_stage(tmp_path, model=other) as stage:
        stage.given[other.name] = blob
        async with stage.worker() as running:
            releases = await given_back(stage, 8)
            assert all(says in release.reason for release in releases)
            assert running.facts[-1].n_held == 0


@trio_test(autojump=True)
async def test_a_silent_backbone_is_waited_for(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        stage.lend = False
        await running.joined.wait()
        worker, backbone = running.started[0].peer_id, stage.money.backbone.peer_id
        stage.network.cut(worker, backbone)
        stage.lend = True
        await trio.sleep(60)
        assert running.states[-1] == "fetching"
        assert "no answer" in running.statuses[-1].reason
        stage.network.heal(worker, backbone)
        await stage.held()
        assert stage.market.all(messages.Release) == []


@trio_test(autojump=True)
async def test_a_second_model_is_held_beside_the_first(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage, stage.worker() as running:
        worker = await stage.held()
        other = small_model("other")
        stage.given |= other.by_digest
        first = stage.model
        stage.model, stage.lease_id = other, b"lease-02"
        stage.money.manifest_hash = other.name
        stage.prices = stage.money.prices()
        stage.send_lease(worker, *stage.leased)
        stage.given |= first.by_digest
        await trio.sleep(5)
        assert running.facts[-1].n_held == 16


@trio_test(autojump=True)
async def test_the_models_public_files_are_asked_before_peers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = (ModelFilePart(n_bytes=1 << 20, urls=("https://models.example/m",)),)
    whole = small_model(files=files)

    class Bare(SmallModel):
        @property
        def by_digest(self) -> dict[bytes, bytes]:
            return {self.name: self.manifest.encode()}  # and no shards

    model = Bare(whole.manifest, whole.shards)
    asked = []

    async def fill(part, _source, expert, _came) -> set[str]:
        asked.append(expert.expert)
        part.append(model.shards[expert.expert])
        return set()

    monkeypatch.setattr("mobile_worker.shards.sources.fill_from_files", fill)
    async with open_stage(tmp_path, model=model) as stage:
        async with stage.worker() as running:
            await stage.held()
            assert sorted(asked) == sorted(model.shards)
            assert stage.backbone.all(messages.Get) == []
            assert running.facts[-1].n_held == 8


@trio_test(autojump=True)
async def test_a_market_that_has_not_got_the_manifest_is_made_good_by_the_backbone(
    tmp_path: Path,
) -> None:
    async with open_stage(tmp_path) as stage:
        answer = stage.market.answer

        def but_gets(peer, message) -> None:
            if not isinstance(message, messages.Get):
                answer(peer, message)

        stage.market.answer = but_gets
        async with stage.worker() as running:
            await stage.held()
            assert running.facts[-1].n_held == 8
