"""The control socket of a running store: operations, bugs and nonsense are answered."""

import stat

import pytest
import trio

from ledger import operations
from ledger.errors import OperationRefused
from p2pmoe.ledgerd.control import serve_control
from p2pmoe.ledgerd.control_client import Unreachable, ask_control
from tests.support.ledger_world import World
from tests.support.trio_test import trio_test


async def ask(folder, name="ping", **params):
    return await trio.to_thread.run_sync(ask_control, folder, name, params)


@trio_test
async def test_operations_are_answered_while_the_store_is_open(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, store)
            mode = (tmp_path / "control.sock").stat().st_mode
            assert stat.S_IMODE(mode) == 0o600
            assert (await ask(tmp_path))["ledger"] == world.ledger.id.hex()
            with pytest.raises(OperationRefused, match="no operation 'pong'"):
                await ask(tmp_path, "pong")
            with pytest.raises(OperationRefused, match="takes no parameters"):
                await ask(tmp_path, x=1)
            nursery.cancel_scope.cancel()
    assert not (tmp_path / "control.sock").exists()
    with pytest.raises(Unreachable):
        ask_control(tmp_path, "ping", {})


@trio_test
async def test_a_bug_in_an_operation_is_one_error(tmp_path, monkeypatch, caplog):
    def fail(office, params):
        raise ZeroDivisionError

    monkeypatch.setitem(operations.OPERATIONS, "fail", fail)
    with World().open(tmp_path) as store:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, store)
            with pytest.raises(Exception, match="see its log"):
                await ask(tmp_path, "fail")
            assert await ask(tmp_path)
            nursery.cancel_scope.cancel()
    assert "ZeroDivisionError" in caplog.text


@trio_test
async def test_nonsense_is_one_error(tmp_path):
    with World().open(tmp_path) as store:
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_control, store)
            path = str(tmp_path / "control.sock")
            async with await trio.open_unix_socket(path) as noise:
                await noise.send_all(b"GET / HTTP/1.1\n")
                assert b"FormatRefused" in await noise.receive_some()
            assert await ask(tmp_path)
            nursery.cancel_scope.cancel()
