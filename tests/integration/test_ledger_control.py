"""The operator's commands beside a running ledger process, and after it was killed."""

from pathlib import Path

import pytest

from tests.support.ledger_commands import document_of
from tests.support.operator_processes import OperatorProcess

pytestmark = pytest.mark.slow


def start(tmp_path: Path, folder: Path) -> OperatorProcess:
    return OperatorProcess(
        tmp_path,
        *("relay", "--self-signed", "--listen", "127.0.0.1:0", "--data", str(folder)),
    )


def test_a_period_is_closed_with_and_without_a_running_ledger(tmp_path):
    folder = tmp_path / "net"
    relay = start(tmp_path, folder)
    try:
        first = document_of(folder, "close", "2020-01")
        assert (first["already"], first["last_seq"]) == (False, 0)
        assert (folder / "ledger" / "control.sock").is_socket()
    finally:
        relay.kill()
    # The socket of the killed process lies there still; the command does it itself.
    assert (folder / "ledger" / "control.sock").is_socket()
    document_of(folder, "close", "2020-02")
    relay = start(tmp_path, folder)
    try:
        assert document_of(folder, "close", "2020-01") == first | {"already": True}
        document_of(folder, "close", "2020-03")
        names = [row["name"] for row in document_of(folder, "periods")["periods"]]
        assert names == ["2020-01", "2020-02", "2020-03"]
        assert relay.stop() == 0
    finally:
        relay.kill()
    assert not (folder / "ledger" / "control.sock").exists()
