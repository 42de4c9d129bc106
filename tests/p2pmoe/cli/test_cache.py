"""`p2pmoe cache`: listed, and cleared of what no lease needs."""

import json

import pytest

from mobile_worker.session.identity import load_or_create
from mobile_worker.shards.store import ShardStore
from p2pmoe.contributor.errors import WorkerSilent
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shards").mkdir()
    for digit, size in (("a", 5), ("b", 7)):
        (tmp_path / "shards" / f"{digit * 64}.shard").write_bytes(b"x" * size)
    return tmp_path


def test_what_lies_there_is_listed(folder):
    told = json.loads(run_here("cache", "ls", "--data", folder, "--json").stdout)
    assert told["bytes"] == 12
    assert {row["shard"][0] for row in told["shards"]} == {"a", "b"}
    assert "a" * 64 in run_here("cache", "ls", "--data", folder).stdout


def test_without_a_worker_all_goes(folder):
    shown = run_here("cache", "clear", "--data", folder, "--json")
    assert json.loads(shown.stdout) == {"files": 2, "bytes": 12}
    assert list((folder / "shards").iterdir()) == []


def test_a_running_worker_keeps_what_is_leased(folder):
    with answering_worker(folder) as (desk, _, _):
        desk.controls.store = ShardStore(folder / "shards", max_bytes=100)
        desk.controls.store.keep(["a" * 64])
        assert run_here("cache", "clear", "--data", folder).exit_code == 0
    assert [path.name[0] for path in (folder / "shards").iterdir()] == ["a"]


def test_one_that_cannot_be_asked_loses_nothing(folder):
    identity = load_or_create(folder / "identity")
    shown = run_here("cache", "clear", "--data", folder)
    identity.release()
    assert isinstance(shown.exception, WorkerSilent)
    assert len(list((folder / "shards").iterdir())) == 2
