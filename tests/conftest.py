"""What all tests share: a property test never fails because the machine is busy.

`ledger_database` is a ledger's folder, once for SQLite and once for PostgreSQL: a test
that takes it runs on both. `ledger_databases` makes more of the same kind. With
`--ledger-database postgresql` every ledger that any test makes is in PostgreSQL, so
that one suite is run on both.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.postgres import Server

settings.register_profile(
    "p2pmoe", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("p2pmoe")
_BOTH = ("sqlite", "postgresql")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let one choose where all ledgers are."""
    parser.addoption("--ledger-database", choices=_BOTH, default="sqlite")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator["Server"]:
    """A PostgreSQL server of this run, started by the first test that asks for it."""
    from tests.support.postgres import running_server

    with running_server() as server:
        yield server


@pytest.fixture(scope="session", autouse=True)
def _every_ledger(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--ledger-database") == "sqlite":
        yield
        return
    from tests.support.postgres import ledgers_made_in

    with ledgers_made_in(request.getfixturevalue("postgres_server")):
        yield


@pytest.fixture(params=_BOTH)
def ledger_databases(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    """Make a folder ready for a new ledger in SQLite or PostgreSQL; returns it."""
    if request.param == "sqlite":
        return lambda folder: folder
    return request.getfixturevalue("postgres_server").prepare


@pytest.fixture
def ledger_database(ledger_databases: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A folder for a new ledger, in SQLite and in PostgreSQL."""
    return ledger_databases(tmp_path / "ledger")


@pytest.fixture
def only_sqlite(request: pytest.FixtureRequest) -> None:
    """For a test of SQLite's own ways: skipped where all ledgers are elsewhere."""
    if request.config.getoption("--ledger-database") != "sqlite":
        pytest.skip("is about SQLite")
