"""`p2pmoe ledger migrate|copy|backup|restore`: where a ledger's books lie.

A URL on the command line has no password, as every process of the machine can read it:
write it to a file, mode 600, and name that, or use PGPASSFILE or a service.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, ledger_path
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.backup import BackupReport
    from ledger.database_url import DatabaseUrl

__all__ = ["add_store_commands"]

SQLITE = "sqlite"


def add_store_commands(group: typer.Typer) -> None:
    """Add the commands to the ledger's group."""
    group.command("migrate")(_migrate)
    group.command("copy")(_copy)
    group.command("backup")(_backup)
    group.command("restore")(_restore)


def _migrate(data: Data = None, as_json: AsJson = False) -> None:
    """Bring the database to this program's schema; take a backup before."""
    from ledger.moving import migrate_ledger
    from p2pmoe.cli.tables import print_json, print_values

    before, after = migrate_ledger(ledger_path(data))
    values = {"schema_before": before, "schema": after, "changed": before != after}
    if as_json:
        print_json(values)
    else:
        print_values(values)


def _copy(
    to: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="An empty PostgreSQL database, or a file with its URL; or `sqlite`.",
        ),
    ],
    switch: Annotated[
        bool,
        typer.Option(
            "--switch", help="Use the copy from now on; the ledger must not run."
        ),
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Copy the database into PostgreSQL, or back into SQLite, and compare."""
    from ledger.moving import copy_ledger, switch_to_sqlite
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.tables import print_json, print_rows

    path = ledger_path(data)
    if to == SQLITE and not switch:
        raise ConfigurationError(
            "a copy in SQLite beside the books would be of no use",
            advice="Add --switch to use it from now on, or take a backup.",
        )
    with LateBar() as bar:
        if to == SQLITE:
            report = switch_to_sqlite(path, bar.tell)
        else:
            report = copy_ledger(path, _url(to), is_switch=switch, tell=bar.tell)
    rows: list[dict[str, object]] = [
        {"table": table.name, "rows": table.rows, "sha256": table.digest.hex()}
        for table in report.tables
    ]
    if as_json:
        print_json({"tables": rows, "rows": report.rows, "switched": switch})
    else:
        print_rows(("table", "rows", "sha256"), rows, "Copied and compared")
        if switch:
            typer.echo("the ledger uses this copy from now on", err=True)


def _backup(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="A new folder, or a new .tar file.")
    ],
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Take a backup of the books, the leaves and the log; the ledger may run."""
    from ledger.backup import take_backup
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.late_bar import LateBar

    now_us = SystemClock().wall_us()
    with LateBar() as bar:
        report = take_backup(ledger_path(data), target, now_us, bar.tell)
    _print_report(target, report, as_json=as_json)


def _restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="The folder or .tar file.")
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An empty PostgreSQL database, or a file with its URL; else SQLite.",
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Put a backup into a folder that holds no ledger, every file checked."""
    from ledger.backup import restore_backup
    from p2pmoe.cli.late_bar import LateBar

    path = ledger_path(data)
    url = _url(to) if to else None
    with LateBar() as bar:
        report = restore_backup(source, path, url, bar.tell)
    _print_report(path, report, as_json=as_json)


def _print_report(place: Path, report: "BackupReport", *, as_json: bool) -> None:
    from ledger.periods import format_us
    from p2pmoe.cli.tables import print_json, print_values

    values: dict[str, object] = {
        "place": str(place),
        "taken": format_us(report.taken_us),
        "taken_us": report.taken_us,
        "schema": report.schema,
        "files": report.files,
        "bytes": report.n_bytes,
    }
    if as_json:
        print_json(values)
    else:
        print_values(values)


def _url(text: str) -> "DatabaseUrl":
    """Read a URL, or the file that has it.

    Raises:
        DatabaseUrlRefused: neither.
        ConfigurationError: a password on the command line, or no such file.
    """
    from ledger.database_url import parse_url, read_url

    if "://" not in text:
        found = read_url(Path(text))
        if found is None:
            raise ConfigurationError(f"{text!r} is neither a database URL nor a file")
        return found
    url = parse_url(text, "--to")
    if url.password is not None or "password" in url.query:
        raise ConfigurationError(
            "--to has a password, which every process here can read",
            advice="Write the URL to a file, chmod 600 it, and name the file.",
        )
    return url
