"""Where the ledger's commands look, and what ids they expect."""

import pytest

from ledger.errors import StoreUnavailable
from ledger.periods import ALL_TIME, Period
from p2pmoe.cli.ledger_folder import (
    expected_identity,
    ledger_path,
    open_reader,
    parse_hex,
    print_lines,
    shown_period,
)
from p2pmoe.errors import ConfigurationError
from p2pmoe.network.folder import OperatorFolder, default_folder
from tests.support.ledger_world import Party, World


def test_the_default_folder_is_where_the_operators_services_keep_it(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("platformdirs.user_data_dir", lambda *_, **__: str(tmp_path))
    with pytest.raises(StoreUnavailable, match=r"no ledger in .*/network/ledger"):
        open_reader(None)
    world = World()
    world.open(OperatorFolder(default_folder()).ledger).close()
    assert open_reader(None).identity == world.identity


def test_the_relays_folder_will_do(tmp_path):
    world = World()
    world.open(OperatorFolder(tmp_path).ledger).close()
    assert open_reader(tmp_path).identity == world.identity
    assert open_reader(tmp_path / "ledger").identity == world.identity


def test_ids_given_come_before_the_folders(tmp_path):
    world, other = World(), Party("other").id
    world.open(tmp_path).close()
    assert expected_identity(None, None, None, tmp_path) == world.identity
    mixed = expected_identity(None, other.hex(), None, tmp_path)
    assert (mixed.network, mixed.ledger) == (world.network.id, other)
    # With all three, no folder is needed.
    given = expected_identity(other.hex(), other.hex(), other.hex(), tmp_path / "no")
    assert given.market == other


@pytest.mark.parametrize("text", ["", "zz", "00" * 31, "00" * 33])
def test_what_is_no_id(text):
    with pytest.raises(ConfigurationError, match=r"network id .* is not 64 hex"):
        parse_hex(text, "network id", 32)


def test_before_there_is_a_ledger_the_keys_tell_an_operators_folder(tmp_path):
    assert ledger_path(tmp_path) == tmp_path
    (tmp_path / "ledger.identity").touch()
    assert ledger_path(tmp_path) == tmp_path / "ledger"
    World().open(tmp_path).close()
    assert ledger_path(tmp_path) == tmp_path  # unless it holds one itself


def test_lines_are_printed_as_they_are(capsys):
    print_lines(line for line in ["a\n", "b,c\n"])
    assert capsys.readouterr().out == "a\nb,c\n"


def test_a_period_is_shown_with_both_borders():
    assert shown_period(ALL_TIME) == "all time"
    assert shown_period(Period(0, 1)) == str(Period(0, 1))
