"""Experts fetched into memory: the same weights, checked, from any thread."""

import threading
from pathlib import Path

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardUnavailable
from p2pmoe.backbone.base_model import open_by_manifest
from p2pmoe.backbone.fetched_experts import ExpertFetcher, FetchedExperts
from p2pmoe.weights.errors import NotHere
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.model_file import open_model
from tests.support.base_models import FAST, MANIFEST_URL, PublicModel, public_model
from tests.support.mini_m3 import write_mini_m3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> PublicModel:
    path = write_mini_m3(tmp_path_factory.mktemp("model") / "mini.gguf")
    return public_model(path, with_tokenizer=False)


@pytest.fixture
def model(whole: PublicModel) -> PublicModel:
    return whole.changed()


def fetched(model: PublicModel, folder: Path, took=lambda _: None) -> FetchedExperts:
    base = open_by_manifest(
        MANIFEST_URL, folder, settings=FAST, open_client=model.server.open_client
    )
    model.server.asked.clear()
    fetcher = ExpertFetcher(model.manifest, FAST, open_client=model.server.open_client)
    return FetchedExperts(base.model_file, fetcher, took)


def test_weights_are_those_of_the_file(tmp_path: Path, model: PublicModel) -> None:
    times: list[float] = []
    experts = fetched(model, tmp_path, times.append)
    with open_model(model.path) as file:
        own = ExpertFile(file)
        for entry in model.manifest.experts:
            expert = entry.expert
            assert experts.shard(expert) == own.shard(expert)
            one, other = experts.weights(expert), own.weights(expert)
            assert bytes(one.gate.raw) == bytes(other.gate.raw)
            assert bytes(one.down.raw) == bytes(other.down.raw)
            assert one.activation == other.activation
            assert experts.n_bytes(expert) == own.n_bytes(expert)
            assert experts.kinds(expert.layer) == own.kinds(expert.layer)
    assert len(times) == 2 * len(model.manifest.experts) == experts.count.n_shards
    assert experts.count.n_bytes == model.server.n_bytes
    assert names(tmp_path) == [".base", ".last", ".manifest"]


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_threads_fetch_beside_each_other(tmp_path: Path, model: PublicModel) -> None:
    experts = fetched(model, tmp_path)
    found: list[memoryview] = []
    threads = [
        threading.Thread(target=lambda e=entry: found.append(experts.shard(e.expert)))
        for entry in model.manifest.experts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(model.manifest.experts)


def test_wrong_bytes_are_asked_of_a_mirror_and_never_returned(
    tmp_path: Path, model: PublicModel
) -> None:
    experts = fetched(model, tmp_path)
    expert = model.manifest.experts[0].expert
    right = bytes(experts.shard(expert))
    model.server.bend = lambda host, _, body: (
        bytes(len(body)) if host == "a.example" else body
    )
    assert experts.shard(expert) == right
    model.server.bend = lambda _h, _n, body: bytes(len(body))
    with pytest.raises(NotHere, match=r"cannot be fetched: the servers send other"):
        experts.weights(expert)
    assert experts.count.n_failed == 1


def test_a_server_that_is_gone_is_not_here(tmp_path: Path, model: PublicModel) -> None:
    experts = fetched(model, tmp_path)
    model.server.is_up = False
    with pytest.raises(NotHere, match="connection refused"):
        experts.shard(model.manifest.experts[0].expert)
    with pytest.raises(NotHere, match="cannot be fetched"):
        experts.shard(ExpertId(0, 77))


def test_a_hasty_one_tries_once_and_is_counted_with_it(model: PublicModel) -> None:
    fetcher = ExpertFetcher(model.manifest, open_client=model.server.open_client)
    hasty = fetcher.hasty(silence_s=1.0, slowest_bytes_s=1 << 20)
    model.server.is_up = False
    with pytest.raises(ShardUnavailable, match="tried 1 times"):
        hasty.shard(model.manifest.experts[0].expert)
    assert fetcher.count.n_failed == 1
