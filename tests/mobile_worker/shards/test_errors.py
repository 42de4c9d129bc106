"""The errors carry what the command line prints."""

from mobile_worker.errors import LocalError, RemoteError
from mobile_worker.shards.errors import (
    ShardCorrupt,
    ShardUnavailable,
    StoreFull,
    StoreUnusable,
)


def test_store_errors_say_what_to_do() -> None:
    assert "--disk" in StoreFull("full").advice
    assert "--data" in StoreUnusable("read-only").advice
    assert StoreFull("full").exit_code == 2


def test_ours_and_theirs_are_told_apart() -> None:
    assert issubclass(ShardCorrupt, LocalError)
    assert issubclass(ShardUnavailable, RemoteError)
