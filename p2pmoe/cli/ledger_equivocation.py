"""`p2pmoe ledger equivocation list|export|verify|report`: who signed one number twice.

A proof's file stands by itself: two vouchers of one tab and number, both signed by the
accused; `verify` needs nothing but the network's id. `report` costs a worker its
holdbacks, with `--commit`. Exit codes: 0 done, 1 `verify` found that it
proves nothing, 2 wrong input.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    AsJson,
    Data,
    NetworkKey,
    WorkerId,
    open_reader,
    parse_hex,
)

__all__ = ["add_equivocation_group"]

ProofFile = Annotated[Path, typer.Argument(metavar="FILE", help="The proof's file.")]


def add_equivocation_group(group: typer.Typer) -> None:
    """Add `equivocation` with its commands to the ledger's group."""
    equivocation = typer.Typer(
        help="Proofs that one signer signed two vouchers of one number.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    equivocation.command("list")(_list)
    equivocation.command("export")(_export)
    equivocation.command("verify")(_verify)
    equivocation.command("report")(_report)
    group.add_typer(equivocation, name="equivocation")


def _list(worker: WorkerId = None, data: Data = None, as_json: AsJson = False) -> None:
    """List the proofs that the ledger keeps."""
    from ledger.balances import find_owner
    from ledger.penalty_rows import kept_proofs
    from ledger.periods import format_us
    from p2pmoe.cli.tables import print_json, print_rows

    with open_reader(data).session() as connection:
        owner = find_owner(connection, worker) if worker else None
        kept = kept_proofs(connection, worker=owner)
    rows = [
        {
            "proof": each.proof.name.hex(),
            "signer_is": "worker" if each.is_of_worker else "backbone",
            "signer": each.proof.signer.hex(),
            "tab": each.tab.hex(),
            "epoch": each.price_epoch,
            "number": each.number,
            "seen": format_us(each.seen_us),
            "seen_us": each.seen_us,
        }
        for each in kept
    ]
    if as_json:
        print_json({"proofs": rows})
        return
    columns = ("proof", "signer_is", "signer", "tab", "epoch", "number", "seen")
    print_rows(columns, rows, "Equivocation")


def _export(
    proof: Annotated[
        str, typer.Argument(metavar="PROOF", help="8 or more digits of the proof.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A new file.")
    ],
    data: Data = None,
) -> None:
    """Write one proof to a file that others can check."""
    from ledger.penalty_rows import kept_proof
    from p2pmoe.cli.paper_files import write_new_file

    with open_reader(data).session() as connection:
        found = kept_proof(connection, proof)
    write_new_file(output, found.pack())
    print(f"proof written to {output}", file=sys.stderr)


def _verify(
    file: ProofFile,
    network: NetworkKey = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check a proof's file, offline."""
    from ledger.equivocation import (
        MAX_PROOF_BYTES,
        EquivocationProof,
        verify_equivocation,
    )
    from ledger.errors import DifferenceFound, RemoteError
    from p2pmoe.cli.paper_files import read_bounded_file
    from p2pmoe.cli.tables import print_json, print_values

    wanted = (
        parse_hex(network, "network id", 32)
        if network
        else open_reader(data).identity.network
    )
    proof = EquivocationProof.parse(read_bounded_file(file, MAX_PROOF_BYTES))
    try:
        found = verify_equivocation(proof, wanted)
    except RemoteError as exc:
        raise DifferenceFound(f"{file}: {exc}") from exc
    values = {
        "verified": True,
        "proof": proof.name.hex(),
        "signer": proof.signer.hex(),
        "signer_is": "worker" if found.is_worker else "backbone",
        "tab": found.key.tab.hex(),
        "epoch": found.key.price_epoch,
        "number": found.number,
    }
    if as_json:
        print_json(values)
    else:
        print_values(values)


def _report(
    file: ProofFile,
    commit: Annotated[
        bool, typer.Option("--commit", help="Record it; else only say what it costs.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check a proof and record it; a worker loses its holdbacks."""
    from ledger.amounts import format_credits
    from ledger.equivocation import MAX_PROOF_BYTES
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.paper_files import read_bounded_file
    from p2pmoe.cli.tables import print_json, print_values

    raw = read_bounded_file(file, MAX_PROOF_BYTES)
    params = {"proof": raw.hex(), "commit": commit}
    values = dict(operate(data, "equivocation.report", params))
    values["forfeited"] = format_credits(int(str(values["forfeited_uc"])))
    if as_json:
        print_json(values)
    else:
        print_values(values)
    if not commit:
        print("nothing was changed: --commit records it", file=sys.stderr)
