"""`p2pmoe ledger receipt prove|verify`: the proof of one expert served.

`prove` reads a ledger's folder and adds, once the tab is closed, where the log has it;
`verify` needs nothing but the file and the ids of network, ledger and market: given, or
taken from the folder. Exit codes: 0 done, 1 the receipt proves nothing, or less than
was asked for, 2 wrong input.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.ledger_folder import (
    AsJson,
    BackboneId,
    Data,
    LedgerKey,
    MarketKey,
    NetworkKey,
    WorkerId,
    expected_identity,
    open_reader,
    parse_hex,
)
from p2pmoe.errors import ConfigurationError

if TYPE_CHECKING:
    from ledger.receipt import ReceiptCheck

__all__ = ["add_receipt_group"]


def add_receipt_group(group: typer.Typer) -> None:
    """Add `receipt` with its commands to the ledger's group."""
    receipt = typer.Typer(
        help="The proof of one expert served.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    receipt.command("prove")(_prove)
    receipt.command("verify")(_verify)
    group.add_typer(receipt, name="receipt")


def _prove(
    tab: Annotated[str, typer.Argument(metavar="TAB", help="The tab, 16 hex digits.")],
    serving: Annotated[
        int, typer.Argument(metavar="SERVING", help="The serving's number.")
    ],
    worker: WorkerId = None,
    backbone: BackboneId = None,
    epoch: Annotated[
        int | None,
        typer.Option(metavar="N", help="The price epoch, if the tab had several."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write to this file.")
    ] = None,
    data: Data = None,
) -> None:
    """Write the receipt of one serving, as JSON that proves itself."""
    from ledger.errors import NotFound
    from ledger.export import keys_of_tab, prove
    from ledger.log.proving import with_log_proof
    from ledger.statements import find_owner

    reader = open_reader(data)
    with reader.session() as connection:
        keys = keys_of_tab(
            connection,
            parse_hex(tab, "tab", 8),
            worker=find_owner(connection, worker) if worker else None,
            backbone=find_owner(connection, backbone) if backbone else None,
        )
        keys = [key for key in keys if epoch is None or key.price_epoch == epoch]
        receipt = None
        for key in keys:
            try:
                found = prove(connection, reader.folder, key, serving)
            except NotFound:
                continue
            if receipt is not None:
                raise NotFound(
                    f"several tabs {tab} have serving {serving}: "
                    "name --worker, --backbone or --epoch"
                )
            receipt = found
        if receipt is not None:
            receipt = with_log_proof(connection, reader.folder, receipt)
    if receipt is None:
        raise NotFound(f"serving {serving} of tab {tab} has no receipt")
    if output is None:
        print(receipt.to_json(), end="")
    else:
        try:
            output.write_text(receipt.to_json(), encoding="utf-8")
        except OSError as exc:
            raise ConfigurationError(
                f"cannot write {output}: {(exc.strerror or str(exc)).lower()}",
                advice="name another file",
            ) from exc
        print(f"receipt written to {output}", file=sys.stderr)


def _verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt file.")],
    network: NetworkKey = None,
    ledger: LedgerKey = None,
    market: MarketKey = None,
    logged: Annotated[
        bool, typer.Option("--logged", help="Demand that the log has it.")
    ] = False,
    witness: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Demand this witness's cosignature: verifier key or 64 hex; repeat.",
        ),
    ] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt file, offline."""
    from ledger.errors import DifferenceFound, RemoteError
    from ledger.receipt import MAX_RECEIPT_BYTES, Receipt, verify_receipt
    from p2pmoe.cli.paper_files import read_bounded_file
    from p2pmoe.cli.tables import print_json, print_values

    text = read_bounded_file(file, MAX_RECEIPT_BYTES)
    ids = expected_identity(network, ledger, market, data)
    receipt = Receipt.from_json(text)
    try:
        check = verify_receipt(
            receipt,
            network=ids.network,
            ledger=ids.ledger,
            market=ids.market,
            logged=logged,
            witnesses=[_witness(text) for text in witness or ()],
        )
    except RemoteError as exc:
        raise DifferenceFound(f"{file}: {exc}") from exc
    values = _values(check)
    if as_json:
        print_json(values)
    else:
        print_values(values)


def _witness(text: str) -> bytes:
    """Return the key of a witness, given with its name or without."""
    from ledger.log.note import NoteKey

    return NoteKey.parse(text).key if "+" in text else parse_hex(text, "witness", 32)


def _values(check: "ReceiptCheck") -> dict[str, object]:
    from ledger.amounts import format_credits

    return {
        "verified": True,
        "worker": check.voucher.worker.hex(),
        "backbone": check.voucher.backbone.hex(),
        "tab": check.leaf.tab.hex(),
        "serving": check.leaf.serving,
        "layer": check.leaf.layer,
        "expert": check.leaf.expert,
        "rows": check.leaf.rows,
        "amount_uc": check.leaf.amount_uc,
        "amount": format_credits(check.leaf.amount_uc),
        "price_epoch": check.leaf.price_epoch,
        "voucher": check.voucher.number,
        "log_index": check.log.index if check.log else None,
        "log_size": check.log.checkpoint.size if check.log else None,
        "policy": check.log.policy_hash.hex() if check.log else None,
        "cosigned_by": [each.name for each in check.log.cosigners] if check.log else [],
        "unchecked": list(check.unchecked),
    }
