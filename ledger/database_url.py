"""Which database a ledger's folder uses: the file `database.url` in it.

Contract: without the file it is SQLite in the folder itself. With it, one line names a
PostgreSQL database as a URL, for example
`postgresql://ledger@db.example/ledger?sslmode=verify-full`. A password stands in no
argument and in no error: it comes from PGPASSFILE, a service (`?service=NAME`), or this
file, which then nobody but its owner may read. Anything else is refused.
"""

import os
import stat
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ledger.errors import DatabaseUrlRefused
from ledger.folders import sync_folder

__all__ = ["DatabaseUrl", "parse_url", "read_url", "write_url"]

DatabaseUrl = URL  # for those who pass it on and speak no SQL

_MAX_BYTES = 4096
_DRIVER = "postgresql+psycopg"
_SCHEMES = frozenset({"postgresql", "postgres", _DRIVER})


def parse_url(text: str, name: str = "database URL") -> URL:
    """Read a PostgreSQL URL.

    Args:
        text: the URL; never repeated in an error, it may have a password.
        name: what the error calls it.

    Raises:
        DatabaseUrlRefused: it is none, or of another kind of database.
    """
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError) as exc:
        raise DatabaseUrlRefused(f"{name}: not a database URL") from exc
    if url.drivername not in _SCHEMES:
        raise DatabaseUrlRefused(
            f"{name}: {url.drivername!r} is not PostgreSQL, the only server known here"
        )
    return url.set(drivername=_DRIVER)


def read_url(path: Path) -> URL | None:
    """Return the URL that a folder's file names, None without a file.

    Raises:
        DatabaseUrlRefused: unreadable, no PostgreSQL URL, or a password that others
            may read.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise DatabaseUrlRefused(f"{path}: {exc.strerror}") from exc
    lines = raw.decode("utf-8", "replace").split("\n")
    if len(raw) > _MAX_BYTES or any(line.strip() for line in lines[1:]):
        raise DatabaseUrlRefused(f"{path}: more than one line")
    url = parse_url(lines[0], str(path))
    if url.password is not None and os.name == "posix" and mode & 0o077:
        raise DatabaseUrlRefused(f"{path}: has a password and mode {mode:o}")
    return url


def write_url(path: Path, url: URL) -> None:
    """Make a URL the one that a folder uses; readable by its owner alone.

    Raises:
        OSError: the folder cannot be written.
    """
    line = url.set(drivername="postgresql").render_as_string(hide_password=False)
    partial = path.with_name(f"{path.name}.tmp")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    sync_folder(path.parent)
