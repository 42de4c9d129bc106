"""Operations from a command: with and without a running ledger, or its key."""

import os

import pytest
import trio

from ledger import operations
from ledger.errors import FolderInUse, NoLedger, StoreUnavailable
from mobile_worker.session.identity import load_or_create
from p2pmoe.cli import ledger_operate
from p2pmoe.cli.ledger_operate import KeyAtHand, _as_owner_of, operate
from p2pmoe.ledgerd.control import serve_control
from tests.support.ledger_world import World
from tests.support.trio_test import trio_test


@pytest.fixture
def operator(tmp_path):
    """An operator's folder with a ledger that its identity file's key signs for."""
    world = World()
    identity = load_or_create(tmp_path / "ledger.identity")
    world.ledger.id, world.ledger.sign = identity.peer_id, identity.sign
    identity.release()
    with world.open(tmp_path / "ledger") as store:
        store.grant(world.order()).result(60)
    world.path = tmp_path
    return world


def test_without_a_running_ledger_the_command_does_it(operator, monkeypatch):
    def sign(office, params):
        return {"signature": office.sign(b"x").hex()}

    monkeypatch.setitem(operations.OPERATIONS, "sign", sign)
    expected = operator.ledger.sign(b"x").hex()
    assert operate(operator.path, "sign", {}) == {"signature": expected}
    assert operate(operator.path / "ledger", "sign", {}) == {"signature": expected}
    identity = load_or_create(operator.path / "ledger.identity")  # let go again
    identity.release()


@trio_test
async def _asked(operator):
    with operator.open(operator.path / "ledger") as store:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, store)
            answer = await trio.to_thread.run_sync(operate, operator.path, "ping", {})
            nursery.cancel_scope.cancel()
            assert answer["ledger"] == operator.ledger.id.hex()


def test_a_running_ledger_is_asked(operator):
    _asked(operator)


def test_one_that_holds_the_folder_and_is_silent_is_named(operator, monkeypatch):
    monkeypatch.setattr(ledger_operate, "_PAUSE_S", 0.0)
    with operator.open(operator.path / "ledger"), pytest.raises(FolderInUse) as caught:
        operate(operator.path, "ping", {})
    assert "does not answer" in str(caught.value)


def test_no_ledger_is_made(tmp_path):
    with pytest.raises(NoLedger):
        operate(tmp_path, "ping", {})
    assert not list(tmp_path.rglob("*.sqlite3"))


def test_what_needs_the_key_says_so_without_it(operator, tmp_path):
    with (
        KeyAtHand(tmp_path / "none.identity", bytes(32)) as key,
        pytest.raises(StoreUnavailable, match=r"there is no .*none.identity"),
    ):
        key.sign(b"x")
    assert not (tmp_path / "none.identity").exists()
    path = tmp_path / "ledger.identity"
    with (
        KeyAtHand(path, bytes(32)) as key,
        pytest.raises(StoreUnavailable, match="not the key of this ledger"),
    ):
        key.sign(b"x")
    held = load_or_create(path)
    with (
        KeyAtHand(path, held.peer_id) as key,
        pytest.raises(StoreUnavailable, match=r"in use|another"),
    ):
        key.sign(b"x")
    held.release()


def test_root_writes_as_the_owner_of_the_folder(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    class Folder:
        def stat(self):
            return os.stat_result((0o40700, 0, 0, 1, 1001, 1002, 0, 0, 0, 0))

    user = lambda uid: done.append(("user", uid))  # noqa: E731
    group = lambda gid: done.append(("group", gid))  # noqa: E731
    with _as_owner_of(Folder(), user, group):
        done.append("work")
    own_group = os.getegid()
    assert done == [
        ("group", 1002),
        ("user", 1001),
        "work",
        ("user", 0),
        ("group", own_group),
    ]
