"""`p2pmoe ledger witness|cosign`: see that a ledger's log only grows, and say so.

`witness` runs anywhere, best on a machine of somebody who earns: it fetches each new
checkpoint, checks that it contains the last one it saw, and cosigns it. `cosign` is the
ledger's side: it keeps what witnesses said. Exit codes: 0 done, 1 the log went back or
shows another past (both checkpoints are kept, which proves it), 2 wrong input.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.authority import CaFile, use_authorities
from p2pmoe.cli.ledger_folder import (
    AsJson,
    Data,
    LedgerKey,
    NetworkKey,
    open_reader,
    parse_hex,
)

if TYPE_CHECKING:
    from ledger.log.note import NoteKey
    from ledger.log.witness import Sighting, Witness
    from p2pmoe.ledgerd.log_source import LogSource

__all__ = ["add_witness_commands"]


LogPlace = Annotated[
    str, typer.Option(metavar="WHERE", help="The log: its address or its folder.")
]
StateFolder = Annotated[
    Path,
    typer.Option(
        metavar="FOLDER", help="Keeps the witness's key and what it saw: its own."
    ),
]
WitnessName = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Its name in cosignatures; else of its key."),
]


def add_witness_commands(group: typer.Typer) -> None:
    """Add `witness` and `cosign` to the ledger's group."""
    group.command("witness")(_witness)
    group.command("cosign")(_cosign)


def _witness(
    log: LogPlace,
    state: StateFolder,
    network: NetworkKey = None,
    ledger: LedgerKey = None,
    name: WitnessName = None,
    entries: Annotated[
        bool,
        typer.Option(
            "--entries", help="Also read each new entry, check who signed it."
        ),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Look once, then end.")] = False,
    every: Annotated[
        int,
        typer.Option(
            min=1, max=86_400, metavar="SECONDS", help="How often to look at the log."
        ),
    ] = 60,
    ca: CaFile = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check that a log only grows, and cosign its checkpoints."""
    import contextlib
    import functools

    from ledger.log.checkpoint import log_key, witness_key
    from ledger.log.inspection import inspect_entries
    from ledger.log.witness import Witness
    from mobile_worker.clock import SystemClock
    from mobile_worker.session.identity import load_or_create
    from p2pmoe.ledgerd.log_source import open_log

    network_id, ledger_id = _ids(network, ledger, data)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(open_log(log, use_authorities(ca)))
        identity = load_or_create(state / "witness.key")
        stack.callback(identity.release)
        named = name or f"p2pmoe.witness/{identity.peer_id.hex()[:16]}"
        key = witness_key(named, identity.peer_id)
        witness = Witness(
            state,
            key,
            identity.sign,
            SystemClock().wall_us,
            functools.partial(inspect_entries, network=network_id) if entries else None,
        )
        look = _Look(witness, source, log_key(network_id, ledger_id))
        if once:
            _report(look(), key, as_json=as_json)
        else:
            _watch(look, every, lambda seen: _report(seen, key, as_json=as_json))


@dataclass(frozen=True, slots=True)
class _Seen:
    sighting: "Sighting"
    is_news: bool  # cosigned, or handed in, just now
    handed_in: bool
    trouble: str  # why it was not handed in


class _Look:
    """Looks at the log, and hands in what the log's server has not got yet."""

    def __init__(
        self, witness: "Witness", source: "LogSource", log_key: "NoteKey"
    ) -> None:
        self._witness = witness
        self._source = source
        self._log_key = log_key
        self._handed: bytes | None = None  # the last note that was taken

    def __call__(self) -> _Seen:
        from ledger.errors import LogUnavailable
        from ledger.log.folder import LogReader

        log = LogReader(self._source.fetch)
        sighting = self._witness.look(log, self._log_key)
        own = {self._log_key.name, self._witness.key.name}
        lines = tuple(s for s in sighting.note.signatures if s.name in own)
        note = replace(sighting.note, signatures=lines).pack()
        trouble, is_news = "", sighting.is_new
        if note != self._handed:
            try:
                taken = self._source.hand_in(note)
            except LogUnavailable as exc:
                taken, trouble = False, str(exc)
            if taken:
                self._handed, is_news = note, True
        return _Seen(sighting, is_news, note == self._handed, trouble)


def _watch(
    look: Callable[[], _Seen], every_s: int, report: Callable[[_Seen], None]
) -> None:
    """Look again and again; ends when the log convicts itself."""
    import time

    from ledger.errors import FormatRefused, LogUnavailable

    while True:
        try:
            seen = look()
        except (LogUnavailable, FormatRefused) as exc:
            print(f"not cosigned: {exc}", file=sys.stderr)
        else:
            if seen.trouble:
                print(f"not handed in: {seen.trouble}", file=sys.stderr)
            if seen.is_news:
                report(seen)
        time.sleep(every_s)


def _report(seen: _Seen, key: "NoteKey", *, as_json: bool) -> None:
    from p2pmoe.cli.tables import print_json, print_values

    head = seen.sighting.checkpoint
    values = {
        "origin": head.origin,
        "size": head.size,
        "root": head.root.hex(),
        "is_new": seen.sighting.is_new,
        "handed_in": seen.handed_in,
        "note": str(seen.sighting.path),
        "witness": key.text,
    }
    if as_json:
        print_json(values)
    else:
        print_values(values)
    sys.stdout.flush()
    if not seen.handed_in:
        print(
            "hand it in where the ledger is: "
            f"p2pmoe ledger cosign {seen.sighting.path.name} --witness {key.text}",
            file=sys.stderr,
        )


def _cosign(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A checkpoint that was cosigned.")
    ],
    witness: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The witness's verifier key; needed once, then it is known.",
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Keep what a witness says about the ledger's log."""
    from ledger.log.note import MAX_NOTE_BYTES
    from ledger.periods import format_us
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.paper_files import read_bounded_file
    from p2pmoe.cli.tables import print_json, print_rows

    note = read_bounded_file(file, MAX_NOTE_BYTES)
    params = {"note": note.hex(), **({"witness": witness} if witness else {})}
    answer = operate(data, "log.cosign", params)
    cosigners = answer["cosigners"]
    rows = [
        {
            "size": answer["size"],
            "name": each["name"],
            "witness": each["witness"],
            "time": format_us(each["time_s"] * 1_000_000),
            "is_new": each["is_new"],
        }
        for each in cosigners
    ]
    if as_json:
        print_json({"size": answer["size"], "cosigners": rows})
    else:
        print_rows(("size", "name", "witness", "time", "is_new"), rows, "Cosigned")


def _ids(
    network: str | None, ledger: str | None, data: Path | None
) -> tuple[bytes, bytes]:
    """Return the ids of network and ledger: those given, else the folder's."""
    given = (
        parse_hex(network, "network id", 32) if network else None,
        parse_hex(ledger, "ledger id", 32) if ledger else None,
    )
    if given[0] and given[1]:
        return given[0], given[1]
    own = open_reader(data).identity
    return given[0] or own.network, given[1] or own.ledger
