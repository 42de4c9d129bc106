"""A PostgreSQL server of the test run's own, and ledger folders that use it.

    with running_server() as server:
        server.prepare(folder)      # a new database, named by folder/database.url

The programs are Debian's. The server listens on a Unix socket in its own folder alone,
runs as an unprivileged user where the tests are root, and has fsync on; its folder lies
in memory where there is room, since what tests kill are processes, not the machine. One
database, migrated once, is the template of the others. Where the programs are missing
the test is skipped with the reason; with P2PMOE_REQUIRE_SHARED=1 that is a failure.
"""

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, Engine, create_engine

from ledger import database
from ledger.database import LedgerFolder
from ledger.database_url import write_url
from ledger.migrations import migrate

__all__ = ["Server", "has_postgres", "needs_postgres", "running_server"]

_USER = "ledger"
_TEMPLATE = "template_ledger"
_WITHIN_S = 60.0
_POLL_S = 0.02
_MEMORY = Path("/dev/shm")  # noqa: S108  a folder of its own is made in it
_ROOM_BYTES = 1 << 30
_OPTIONS = {
    "listen_addresses": "",
    "dynamic_shared_memory_type": "mmap",  # in its folder: nothing is left behind
    "fsync": "on",
    "shared_buffers": "32MB",
    "max_connections": "64",
    "max_wal_size": "256MB",
    "autovacuum": "off",
}


def _programs() -> Path | None:
    """Return the folder of the newest server's programs."""
    on_path = shutil.which("initdb")
    if on_path and shutil.which("postgres"):
        return Path(on_path).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    by_version = sorted(found, key=lambda path: int(path.parts[-3]))
    return by_version[-1].parent if by_version else None


def has_postgres() -> bool:
    """Say whether a server can be started here."""
    return _programs() is not None


def needs_postgres() -> Path:
    """Return the server's programs, or skip the calling test with the reason."""
    programs = _programs()
    if programs is not None:
        return programs
    reason = "needs PostgreSQL: apt install postgresql"
    if os.environ.get("P2PMOE_REQUIRE_SHARED") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


@dataclass(slots=True)
class Server:
    """A server that runs; every ledger gets a database of its own."""

    folder: Path  # of its Unix socket
    process: subprocess.Popen[bytes]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def url(self, database: str, **query: str) -> URL:
        """Return where a database is."""
        return URL.create(
            "postgresql+psycopg",
            username=_USER,
            database=database,
            query={"host": str(self.folder), **query},
        )

    def new_database(self, template: str = _TEMPLATE) -> URL:
        """Make a database with the current tables; `template1` has none."""
        name = f"ledger_{next(self.numbers)}"
        self.execute(
            sql.SQL("create database {} template {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        return self.url(name)

    def prepare(self, folder: Path) -> Path:
        """Make a folder whose ledger is in a new database; return the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        write_url(folder / "database.url", self.new_database())
        return folder

    def execute(self, statement: sql.Composable, database: str = "postgres") -> None:
        """Run one statement as the server's owner."""
        with self.connect(database) as connection:
            connection.execute(statement)

    def connect(self, database: str = "postgres") -> psycopg.Connection:
        """Open a plain connection, for what goes past the ledger."""
        return psycopg.connect(
            host=str(self.folder), user=_USER, dbname=database, autocommit=True
        )


@contextlib.contextmanager
def running_server(*, on_disk: bool = False) -> Iterator[Server]:
    """Run a server while the block runs; its folder is removed after.

    Args:
        on_disk: keep the data on the disk, for figures that mean something.
    """
    programs = needs_postgres()
    with contextlib.ExitStack() as opened:
        folder = _folder(on_disk=on_disk)
        opened.callback(shutil.rmtree, folder, ignore_errors=True)
        owner = _owner_of(folder)
        _init(programs, folder, owner)
        server = Server(folder, _start(programs, folder, owner))
        opened.callback(_stop, server.process)
        _wait(server)
        server.execute(sql.SQL(f"create database {_TEMPLATE}"))
        engine = create_engine(server.url(_TEMPLATE))
        with engine.begin() as connection:
            migrate(connection)
        engine.dispose()
        yield server


def _folder(*, on_disk: bool) -> Path:
    """Return a new folder; its path is short, as that of a Unix socket must be."""
    parent = None
    if not on_disk and _MEMORY.is_dir():
        parent = _MEMORY if shutil.disk_usage(_MEMORY).free > _ROOM_BYTES else None
    return Path(tempfile.mkdtemp(prefix="p2pmoe-postgres-", dir=parent))


def _owner_of(folder: Path) -> list[str]:
    """Give the folder to who may run a server; return the words before a command."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam("nobody")
    os.chown(folder, user.pw_uid, user.pw_gid)
    ids = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *ids]


def _init(programs: Path, folder: Path, owner: list[str]) -> None:
    words = [programs / "initdb", "--pgdata", folder / "data", "--username", _USER]
    options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
    done = subprocess.run(
        [*owner, *words, *options],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _start(programs: Path, folder: Path, owner: list[str]) -> subprocess.Popen[bytes]:
    settings = [f"--{name}={value}" for name, value in _OPTIONS.items()]
    # The server ends with the test run, however that ends.
    dies_with_us = ["setpriv", "--pdeathsig=INT"] if shutil.which("setpriv") else []
    words = [programs / "postgres", "-D", folder / "data", "-k", folder, *settings]
    with (folder / "output").open("wb") as output:
        return subprocess.Popen(
            [*owner, *dies_with_us, *words],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _wait(server: Server) -> None:
    deadline = time.monotonic() + _WITHIN_S
    while True:
        with contextlib.suppress(psycopg.OperationalError):
            server.connect().close()
            return
        is_late = time.monotonic() > deadline
        if server.process.poll() is not None or is_late:
            raise AssertionError((server.folder / "output").read_text())
        time.sleep(_POLL_S)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGQUIT)  # at once: nothing of it is kept
    process.wait(_WITHIN_S)


@contextlib.contextmanager
def ledgers_made_in(server: Server) -> Iterator[None]:
    """Put every ledger that is made while the block runs into a new database."""
    real = database.writing_engine

    def writing_engine(folder: LedgerFolder) -> Engine:
        if not folder.holds_ledger:
            server.prepare(folder.path)
        return real(folder)

    database.writing_engine = writing_engine
    try:
        yield
    finally:
        database.writing_engine = real
