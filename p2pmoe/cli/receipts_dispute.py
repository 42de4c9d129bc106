"""`p2pmoe receipts dispute|answer`: make the signed papers of a dispute.

Both sign with the key in a worker's or backbone's folder, also while that runs, and
send nothing: the file goes to the ledger's operator. A backbone opens the rows that it
sent, a worker the results that it gave; whoever holds the expert need not have kept
results, they are computed again. Exit codes: 0 done, 1 what was computed is not what
the leaf says, 2 wrong input.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.recomputing import ManifestFile
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.dispute_papers import DisputeClaim, Opening
    from ledger.receipt import Receipt
    from mobile_worker.session.identity import Identity

__all__ = ["add_dispute_commands"]

KeyFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FOLDER",
        help="The worker's or backbone's folder, whose key signs.",
    ),
]
_OPENED = typer.Option(
    "--opened",
    metavar="FILE",
    help="The rows as they were sent, or the results as they were given.",
)
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="A new file.")
]
ReceiptFile = Annotated[
    Path, typer.Argument(metavar="RECEIPT", help="A receipt file of the serving.")
]
ClaimFile = Annotated[Path, typer.Argument(metavar="CLAIM", help="The signed claim.")]


def add_dispute_commands(group: typer.Typer) -> None:
    """Add the two commands to the group `receipts`."""
    group.command("dispute")(_dispute)
    group.command("answer")(_answer)


def _dispute(
    receipt: ReceiptFile,
    opened: Annotated[Path, _OPENED],
    output: Output,
    data: KeyFolder = None,
) -> None:
    """Claim that a serving's results are wrong, or that its rows were never sent."""
    from ledger.dispute_papers import (
        DisputeClaim,
        Half,
        Opening,
        Reason,
        sign_dispute_claim,
    )
    from ledger.leaf import Leaf
    from ledger.voucher import voucher_hash
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.paper_files import write_new_file

    served = _read_receipt(receipt)
    voucher = served.signed.verified()
    key = _key(data)
    sides = {
        voucher.backbone: (Reason.WRONG_RESULTS, Half.ROWS),
        voucher.worker: (Reason.UNKNOWN_ROWS, Half.RESULTS),
    }
    if key.peer_id not in sides:
        raise _no_party(key)
    reason, half = sides[key.peer_id]
    claim = DisputeClaim(
        network=voucher.network,
        voucher=voucher_hash(served.signed.raw),
        reason=reason,
        issued_us=SystemClock().wall_us(),
        leaf=Leaf.parse(served.leaf),
        opener=key.peer_id,
        opening=Opening(half, _opened_bytes(opened)),
    )
    raw = claim.pack()
    write_new_file(output, raw + sign_dispute_claim(raw, key.sign))
    print(
        f"claim about serving {claim.leaf.serving} written to {output}", file=sys.stderr
    )


def _answer(
    claim: ClaimFile,
    output: Output,
    opened: Annotated[Path | None, _OPENED] = None,
    receipt: Annotated[
        Path | None,
        typer.Option(metavar="RECEIPT", help="With --model: the serving's receipt."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Compute the results again: a path, or `pocket`."
        ),
    ] = None,
    manifest: ManifestFile = None,
    data: KeyFolder = None,
) -> None:
    """Answer a claim: open the half of the leaf that it left closed."""
    from ledger.dispute_papers import (
        DisputeAnswer,
        Half,
        Opening,
        sign_dispute_answer,
        verify_dispute_claim,
    )
    from mobile_worker.clock import SystemClock
    from p2pmoe.cli.paper_files import read_paper, write_new_file

    claimed = verify_dispute_claim(*read_paper(claim))
    key = _key(data)
    if key.peer_id == claimed.opener:
        raise ConfigurationError(
            "the key is the opener's own", advice="the other side answers"
        )
    if (opened is None) == (model is None):
        raise ConfigurationError("give either --opened or --model")
    if opened is not None:
        other = {Half.ROWS: Half.RESULTS, Half.RESULTS: Half.ROWS}
        opening = Opening(other[claimed.opening.half], _opened_bytes(opened))
    else:
        opening = _recomputed(claimed, receipt, str(model), manifest)
    answer = DisputeAnswer(
        network=claimed.network,
        claim=claimed.content_hash,
        issued_us=SystemClock().wall_us(),
        respondent=key.peer_id,
        opening=opening,
    )
    answer.check(claimed)
    raw = answer.pack()
    write_new_file(output, raw + sign_dispute_answer(raw, key.sign))
    print(f"answer written to {output}", file=sys.stderr)


def _recomputed(
    claimed: "DisputeClaim", receipt: Path | None, model: str, manifest: Path | None
) -> "Opening":
    """Return the results that the claim's rows give, if they are the leaf's."""
    from ledger.dispute_papers import Half, Opening
    from ledger.errors import DifferenceFound
    from ledger.leaf import Leaf
    from p2pmoe.cli.recomputing import recompute_case
    from p2pmoe.referee.recompute import Case

    if receipt is None or claimed.opening.half is not Half.ROWS:
        raise ConfigurationError(
            "results are computed from a claim's rows, and its receipt",
            advice="give --receipt, or --opened with the bytes that were kept",
        )
    served = _read_receipt(receipt)
    voucher = served.signed.verified()
    if Leaf.parse(served.leaf) != claimed.leaf:
        raise ConfigurationError("the receipt is of another serving than the claim")
    case = Case(voucher=voucher, leaf=claimed.leaf, rows=claimed.opening)
    found = recompute_case(case, model, manifest)
    if not found.is_equal or found.results is None:
        raise DifferenceFound(
            f"serving {claimed.leaf.serving} says {claimed.leaf.out_hash.hex()}, its "
            f"rows give {found.out_hash.hex() if found.out_hash else found.reason}"
        )
    return Opening(Half.RESULTS, found.results)


def _read_receipt(path: Path) -> "Receipt":
    from ledger.receipt import MAX_RECEIPT_BYTES, Receipt
    from p2pmoe.cli.paper_files import read_bounded_file

    return Receipt.from_json(read_bounded_file(path, MAX_RECEIPT_BYTES))


def _opened_bytes(path: Path) -> bytes:
    from ledger.dispute_papers import MAX_OPENING_BYTES
    from p2pmoe.cli.paper_files import read_bounded_file

    return read_bounded_file(path, MAX_OPENING_BYTES)


def _key(data: Path | None) -> "Identity":
    from mobile_worker.session.identity import read_to_sign
    from p2pmoe.cli.data_folders import worker_folder

    return read_to_sign((data or worker_folder()) / "identity")


def _no_party(key: "Identity") -> ConfigurationError:
    return ConfigurationError(
        f"{key.peer_id.hex()[:8]} is neither worker nor backbone of this receipt",
        advice="name the folder of one of them with --data",
    )
