"""A value of a wrong kind is found and named; sound books have none."""

import sqlite3

import pytest

from ledger.cell_types import wrong_cell
from ledger.database import Reader
from ledger.errors import DifferenceFound
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World


def test_sound_books_have_none(ledger_database):
    world = World()
    with world.open(ledger_database) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, final=True)
    with Reader(ledger_database).session() as connection:
        assert wrong_cell(connection) == ""


@pytest.fixture
def books(tmp_path):
    world = World()
    world.open(tmp_path).close()
    with Books(world, tmp_path) as books:
        books.one_sided(7, NOVEMBER_US)
    return books


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("one_sided set worker = 'text'", "one_sided.worker holds text"),
        ("one_sided set amount_uc = 1.5", "one_sided.amount_uc holds real"),
        ("one_sided set amount_uc = 'x'", "one_sided.amount_uc holds text"),
        ("one_sided set state = x'00'", "one_sided.state holds blob"),
        ("schema_version set version = ''", "schema_version.version holds text"),
        ("identity set network = 7", "identity.network holds integer"),
    ],
)
def test_a_value_of_a_wrong_kind_is_named(books, change, told):
    reader = books.reader()
    database = sqlite3.connect(reader.folder.database)
    database.execute("pragma ignore_check_constraints = 1")
    database.execute(f"update {change}")
    database.commit()
    database.close()
    with reader.session() as connection:
        assert wrong_cell(connection) == told
    # Whoever stumbles over it is told so; any other fault stays what it is.
    with pytest.raises(DifferenceFound, match=told), reader.session():
        raise TypeError("stumbled")


def test_any_other_fault_stays_what_it_is(books):
    with pytest.raises(TypeError, match="ours"), books.reader().session():
        raise TypeError("ours")
