"""Entries as they come in: there, undamaged, vouchers of this network."""

import dataclasses

import pytest

from ledger.errors import FormatRefused, LogRefused, LogUnavailable
from ledger.log.checkpoint import Checkpoint
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.folder import LogFolder
from ledger.log.inspection import inspect_entries
from ledger.log.writing import ClosedEntry, LogWriter
from tests.support.ledger_world import Party, paper_tab

TAB = paper_tab()
SIGNED, _ = TAB.next(0, 1, final=True)
NETWORK = TAB.world.network.id
GOOD = pack_entry(SIGNED, bytes(32))


def log_of(path, *raws):
    folder = LogFolder(path)
    entries = [ClosedEntry(raw, entry_hash(raw)) for raw in raws]
    return folder, LogWriter(folder, "origin").write(None, 0, entries)


def test_good_entries_are_counted(tmp_path):
    log, head = log_of(tmp_path / "log", *[GOOD] * 260)
    assert inspect_entries(log, 255, head, NETWORK) == 5
    assert inspect_entries(log, 260, head, NETWORK) == 0


@pytest.mark.parametrize(
    "bad",
    [
        b"nonsense",
        pack_entry(dataclasses.replace(SIGNED, worker_signature=bytes(64)), bytes(32)),
        pack_entry(
            dataclasses.replace(SIGNED, backbone_signature=bytes(64)), bytes(32)
        ),
        GOOD[:40] + b"?" + GOOD[41:],
    ],
    ids=range(4),
)
def test_an_entry_that_must_not_be_convicts_the_log(tmp_path, bad):
    log, head = log_of(tmp_path / "log", GOOD, bad)
    with pytest.raises(LogRefused, match="log entry 1"):
        inspect_entries(log, 0, head, NETWORK)
    assert inspect_entries(log, 2, head, NETWORK) == 0


def test_another_networks_voucher(tmp_path):
    log, head = log_of(tmp_path / "log", GOOD)
    with pytest.raises(LogRefused, match="another network"):
        inspect_entries(log, 0, head, Party("other").id)


def test_what_is_damaged_or_gone_convicts_nobody(tmp_path):
    log, head = log_of(tmp_path / "log", GOOD, GOOD)
    path = log.path / "tile/entries/000.p/2"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + b"?")
    with pytest.raises(LogUnavailable, match="damaged"):
        inspect_entries(log, 0, head, NETWORK)
    path.write_bytes(whole[:-1])
    with pytest.raises(FormatRefused):
        inspect_entries(log, 0, head, NETWORK)
    path.unlink()
    with pytest.raises(LogUnavailable):
        inspect_entries(log, 0, head, NETWORK)
    path.write_bytes(whole)
    other = Checkpoint("origin", 2, bytes(32))
    with pytest.raises(LogUnavailable):
        inspect_entries(log, 0, other, NETWORK)
