"""`p2pmoe ledger dispute list|show|open|answer|judge|check`: the operator's side.

Papers come as files that `p2pmoe receipts dispute` and `answer` write. `judge` computes
the disputed results again and moves money only with `--commit`; `check` computes them
for an auditor, whatever was decided. Exit codes: 0 done, 1 the results are not the
expert's, or a verdict not what comes out, 2 wrong input.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import AsJson, Data, open_reader
from p2pmoe.cli.recomputing import ManifestFile
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from p2pmoe.referee.recompute import Finding

__all__ = ["add_dispute_group"]

Number = Annotated[
    int,
    typer.Argument(
        min=1, max=(1 << 63) - 1, metavar="ID", help="The dispute's number."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        metavar="MODEL", help="The model that was served: a path, or `pocket`."
    ),
]
Paper = Annotated[Path, typer.Argument(metavar="FILE", help="The signed paper.")]
_INSTANTS = ("opened", "answer_due", "answered", "judge_due", "decided")


def add_dispute_group(group: typer.Typer) -> None:
    """Add `dispute` with its commands to the ledger's group."""
    dispute = typer.Typer(
        help="Questions about a serving of a closed voucher, until they are decided.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    dispute.command("list")(_list)
    dispute.command("show")(_show)
    dispute.command("open")(_open)
    dispute.command("answer")(_answer)
    dispute.command("judge")(_judge)
    dispute.command("check")(_check)
    group.add_typer(dispute, name="dispute")


def _list(
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE", help="Only open, answered, upheld or dismissed ones."
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """List disputes in the order they were opened."""
    from ledger.dispute_operations import dispute_document
    from ledger.dispute_rows import DisputeState, disputes_where
    from p2pmoe.cli.tables import print_json, print_rows

    if state is not None and state not in set(DisputeState):
        raise ConfigurationError(f"{state!r} is none of {', '.join(DisputeState)}")
    with open_reader(data).session() as connection:
        found = disputes_where(connection)
    rows = [
        _with_times(dispute_document(each))
        for each in found
        if state is None or each.state == state
    ]
    if as_json:
        print_json({"disputes": rows})
        return
    columns = ("id", "state", "reason", "opened_by", "worker", "voucher", "serving")
    print_rows((*columns, "opened", "answer_due", "verdict"), rows, "Disputes")


def _show(
    number: Number,
    claim: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the signed claim here.")
    ] = None,
    answer: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the signed answer here.")
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Print one dispute; its papers go to files, for the other side or a referee."""
    from ledger.dispute_operations import dispute_document
    from ledger.dispute_rows import dispute_by_id, papers_of
    from p2pmoe.cli.paper_files import write_new_file

    with open_reader(data).session() as connection:
        found = dispute_by_id(connection, number)
        papers = papers_of(connection, number)
    if claim is not None:
        write_new_file(claim, papers.claim + papers.claim_signature)
    if answer is not None:
        if papers.answer is None or papers.answer_signature is None:
            raise ConfigurationError(f"dispute {number} has no answer")
        write_new_file(answer, papers.answer + papers.answer_signature)
    _print_dispute(dispute_document(found), as_json=as_json)


def _open(file: Paper, data: Data = None, as_json: AsJson = False) -> None:
    """Take a signed claim; its voucher is not released until it is decided."""
    _hand_in("claim", file, data, as_json=as_json)


def _answer(file: Paper, data: Data = None, as_json: AsJson = False) -> None:
    """Take the other side's signed answer."""
    _hand_in("answer", file, data, as_json=as_json)


def _judge(
    number: Number,
    model: Model,
    manifest: ManifestFile = None,
    commit: Annotated[
        bool, typer.Option("--commit", help="Decide it; else only say how.")
    ] = False,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Compute the disputed results again, and decide by what comes out."""
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.tables import print_json, print_values

    finding = _find(number, model, manifest, data)
    decided = operate(
        data,
        "dispute.judge",
        {
            "id": number,
            "recomputed": (finding.out_hash or b"").hex(),
            "referee": finding.kernel,
            "commit": commit,
        },
    )
    values = _judgement(number, finding, decided)
    if as_json:
        print_json(values)
    else:
        print_values(values)
    if not commit:
        print("nothing was changed: --commit decides it", file=sys.stderr)
    if not finding.is_equal:
        raise typer.Exit(1)


def _check(
    number: Number,
    model: Model,
    manifest: ManifestFile = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Compute the disputed results again, and compare a referee's verdict with them."""
    from ledger.dispute_rows import dispute_by_id, recomputed_verdict
    from ledger.errors import DifferenceFound
    from p2pmoe.cli.tables import print_json, print_values

    finding = _find(number, model, manifest, data)
    with open_reader(data).session() as connection:
        found = dispute_by_id(connection, number)
    values = {
        "dispute": number,
        "state": found.state.value,
        "verdict": found.verdict,
        "kernel": finding.kernel,
        "equal": finding.is_equal,
        "recomputed": finding.out_hash.hex() if finding.out_hash else "",
        "reason": finding.reason,
    }
    if as_json:
        print_json(values)
    else:
        print_values(values)
    computed = recomputed_verdict(finding.out_hash, "")
    if found.verdict.startswith("recomputed") and computed not in found.verdict:
        raise DifferenceFound(
            f"dispute {number}: {found.verdict}, but {computed}this machine"
        )


def _find(
    number: int, model: str, manifest: Path | None, data: Path | None
) -> "Finding":
    from ledger.dispute_papers import DisputeClaim, Half
    from ledger.dispute_rows import dispute_by_id, disputed_voucher, papers_of
    from p2pmoe.cli.recomputing import recompute_case
    from p2pmoe.referee.recompute import Case

    with open_reader(data).session() as connection:
        found = dispute_by_id(connection, number)
        voucher = disputed_voucher(connection, found)
        claim = DisputeClaim.parse(papers_of(connection, number).claim)
    if claim.opening.half is not Half.ROWS:
        raise ConfigurationError(
            f"dispute {number} is about rows: an answer decides it"
        )
    case = Case(voucher=voucher, leaf=claim.leaf, rows=claim.opening)
    return recompute_case(case, model, manifest)


def _judgement(
    number: int, finding: "Finding", decided: "Mapping[str, object]"
) -> dict[str, object]:
    from ledger.amounts import format_credits

    values: dict[str, object] = {
        "dispute": number,
        "kernel": finding.kernel,
        "equal": finding.is_equal,
        "recomputed": finding.out_hash.hex() if finding.out_hash else "",
        "reason": finding.reason,
        "outcome": decided["outcome"],
        "committed": decided["committed"],
    }
    for name in ("reversed", "forfeited"):
        amount_uc = int(str(decided[f"{name}_uc"]))
        values |= {f"{name}_uc": amount_uc, name: format_credits(amount_uc)}
    return values


def _hand_in(kind: str, file: Path, data: Path | None, *, as_json: bool) -> None:
    from p2pmoe.cli.ledger_operate import operate
    from p2pmoe.cli.paper_files import read_paper

    raw, signature = read_paper(file)
    name = "dispute.open" if kind == "claim" else "dispute.answer"
    params = {kind: raw.hex(), "signature": signature.hex()}
    _print_dispute(operate(data, name, params), as_json=as_json)


def _print_dispute(document: "Mapping[str, object]", *, as_json: bool) -> None:
    from p2pmoe.cli.tables import print_json, print_values

    values = _with_times(document)
    if as_json:
        print_json(values)
    else:
        print_values({k: v for k, v in values.items() if not k.endswith("_us")})


def _with_times(document: "Mapping[str, object]") -> dict[str, object]:
    """Add each instant as UTC text beside its microseconds."""
    from ledger.periods import format_us

    values = dict(document)
    for name in _INSTANTS:
        instant = document[f"{name}_us"]
        values[name] = "" if instant is None else format_us(int(str(instant)))
    return values
