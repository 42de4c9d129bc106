"""Out of the ledger's folder: the proof that a closed voucher is in the log.

Contract: read-only. The proof is made under the newest checkpoint that witnesses
cosigned and that covers the voucher, else under the newest that covers it: the more
can be checked by it, the better. Tiles are read as they are and must lead to the root
that was signed.
"""

from dataclasses import replace

from sqlalchemy import Connection, exists, select

from ledger.database import LedgerFolder
from ledger.errors import DifferenceFound, LogUnavailable, RemoteError
from ledger.log.checkpoint import Checkpoint
from ledger.log.folder import LogReader, fetch_from
from ledger.log.proofs import LogProof
from ledger.log.records import checkpoint_note
from ledger.receipt import Receipt
from ledger.schema_closing import checkpoint, closing, cosignature
from ledger.voucher import voucher_hash

__all__ = ["prove_logged", "with_log_proof"]


def with_log_proof(
    connection: Connection, folder: LedgerFolder, receipt: Receipt
) -> Receipt:
    """Return a receipt that also shows its voucher in the log, if the log has it.

    Raises:
        DifferenceFound: the log's files are not what was signed.
    """
    proof = prove_logged(connection, folder, voucher_hash(receipt.signed.raw))
    if proof is None:
        return receipt
    return replace(receipt, other_proofs={**receipt.other_proofs, **proof.to_members()})


def prove_logged(
    connection: Connection, folder: LedgerFolder, content_hash: bytes
) -> LogProof | None:
    """Return the proof for the voucher of this hash; None if the log has it not yet.

    Raises:
        DifferenceFound: the log's files are not what was signed.
    """
    row = connection.execute(
        select(closing.c.log_index, closing.c.policy_hash).where(
            closing.c.content_hash == content_hash
        )
    ).one_or_none()
    size = _covering(connection, row.log_index) if row else None
    note = checkpoint_note(connection, size) if size is not None else None
    if row is None or note is None:
        return None
    log = LogReader(fetch_from(folder.log))
    try:
        head = Checkpoint.parse(note.text)
        path = log.tree(head.size, head.root).inclusion(row.log_index)
    except (RemoteError, LogUnavailable) as exc:
        raise DifferenceFound(f"log {folder.log}: {exc}") from exc
    return LogProof(row.log_index, row.policy_hash, path, note)


def _covering(connection: Connection, index: int) -> int | None:
    """Return the size of the checkpoint to prove an entry under."""
    covering = (
        select(checkpoint.c.size)
        .where(checkpoint.c.size > index)
        .order_by(checkpoint.c.size.desc())
        .limit(1)
    )
    witnessed = covering.where(exists().where(cosignature.c.size == checkpoint.c.size))
    for statement in (witnessed, covering):
        size: int | None = connection.execute(statement).scalar_one_or_none()
        if size is not None:
            return size
    return None
