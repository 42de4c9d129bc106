"""`p2pmoe ledger log show|rebuild`: the public log of closed vouchers.

`show` tells its newest checkpoint, who cosigned it and what a witness needs to know.
`rebuild` writes the log's folder anew from the database, when files of it are damaged:
every root that was ever signed must come out again. It needs the ledger to be stopped,
signs nothing, and keeps the old folder. Exit codes: 0 done, 1 the database does not
lead to what was signed, 2 wrong input or the ledger runs.
"""

import sys

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader

__all__ = ["add_log_group"]


def add_log_group(group: typer.Typer) -> None:
    """Add `log` with its commands to the ledger's group."""
    log = typer.Typer(
        help="The public log of closed vouchers.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    log.command("show")(_show)
    log.command("rebuild")(_rebuild)
    group.add_typer(log, name="log")


def _show(data: Data = None, as_json: AsJson = False) -> None:
    """Print the log's newest checkpoint and who cosigned it."""
    from ledger.errors import LogUnavailable
    from ledger.log.checkpoint import Checkpoint, cosigners_of, log_key
    from ledger.log.cosigning import read_witnesses
    from ledger.log.records import checkpoint_note
    from ledger.periods import format_us
    from p2pmoe.cli.tables import print_json, print_values

    reader = open_reader(data)
    with reader.session() as connection:
        note = checkpoint_note(connection)
    if note is None:
        raise LogUnavailable("the ledger has signed no checkpoint yet")
    head = Checkpoint.parse(note.text)
    witnesses = [key.key for key in read_witnesses(reader.folder)]
    cosigners = [
        {
            "name": each.name,
            "witness": each.key.hex(),
            "time": format_us(each.time_s * 1_000_000),
        }
        for each in cosigners_of(note, witnesses)
    ]
    values: dict[str, object] = {
        "origin": head.origin,
        "size": head.size,
        "root": head.root.hex(),
        "folder": str(reader.folder.log),
        "network": reader.identity.network.hex(),
        "ledger": reader.identity.ledger.hex(),
        "key": log_key(reader.identity.network, reader.identity.ledger).text,
    }
    if as_json:
        print_json(values | {"cosigners": cosigners})
        return
    for each in cosigners:
        values[f"cosigned by {each['name']}"] = each["time"]
    print_values(values)


def _rebuild(data: Data = None, as_json: AsJson = False) -> None:
    """Write the log's folder anew from the database; the ledger must not run."""
    from ledger.log.rebuilding import rebuild_log
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.network.folder import give_away

    reader = open_reader(data)
    print("writing the log from the database ...", file=sys.stderr)
    head, kept = rebuild_log(reader)
    if head is not None:
        for path in (reader.folder.log, *reader.folder.log.rglob("*")):
            give_away(path)
    values = {
        "size": head.size if head else None,
        "root": head.root.hex() if head else None,
        "folder": str(reader.folder.log),
        "old_folder": str(kept) if kept else None,
    }
    if as_json:
        print_json(values)
    else:
        print_values(values)
