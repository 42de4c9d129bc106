"""`p2pmoe cache ls|clear`: the shards that a worker keeps on this machine's disk.

What is leased stays while a worker runs; without one everything goes, and is fetched
again at the next start. Nothing of the accounts is touched.
"""

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, ask, folder_of

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="Shards of models on this machine's disk, kept for restarts.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.command("ls")(_ls)
    group.command("clear")(_clear)
    app.add_typer(group, name="cache")


def _ls(data: Data = None, as_json: AsJson = False) -> None:
    """List the shards, newest first."""
    import sys

    from ledger.periods import format_us
    from p2pmoe.cli.sizes import format_size
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.contributor.shards_here import list_shards

    shards = list_shards(folder_of(data) / "shards")
    rows = [
        {
            "shard": each.digest,
            "bytes": each.n_bytes,
            "whole": "yes" if each.is_whole else "no",
            "written": format_us(each.written_us),
        }
        for each in shards
    ]
    n_bytes = sum(each.n_bytes for each in shards)
    if as_json:
        print_json({"bytes": n_bytes, "shards": rows})
        return
    print_rows(("shard", "bytes", "whole", "written"), rows, "Shards")
    print(f"{len(rows)} shards, {format_size(n_bytes)}", file=sys.stderr)


def _clear(data: Data = None, as_json: AsJson = False) -> None:
    """Remove the shards that no lease needs now."""
    import sys

    from p2pmoe.cli.sizes import format_size
    from p2pmoe.cli.tables import print_json
    from p2pmoe.contributor.errors import WorkerNotRunning
    from p2pmoe.contributor.shards_here import remove_shards

    folder = folder_of(data)
    try:
        told = ask(data, "clear-cache")
        n_files, n_bytes = _count(told, "files"), _count(told, "bytes")
    except WorkerNotRunning:
        n_files, n_bytes = remove_shards(folder / "shards")
    if as_json:
        print_json({"files": n_files, "bytes": n_bytes})
    else:
        print(f"{n_files} files removed, {format_size(n_bytes)}", file=sys.stderr)


def _count(told: dict[str, object], name: str) -> int:
    found = told.get(name)
    return found if isinstance(found, int) else 0
