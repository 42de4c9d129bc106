"""A ledger's database with whatever became of its vouchers, row by row.

For tests of what reads the books: closings, releases, disputes and payouts are written
as the ledger would write them, at instants that the test chooses, without the clocks
and windows that lead there.
"""

from pathlib import Path
from typing import Self

from sqlalchemy import Connection, insert, select, update

from ledger.accounts import (
    EXTERNAL_OWNER,
    AccountKind,
    Book,
    Posting,
    TransferCode,
    transfer_id,
)
from ledger.database import LedgerFolder, Reader, highest, open_writing_engine
from ledger.policy import Policy
from ledger.schema import account, voucher
from ledger.schema_closing import (
    checkpoint,
    closing,
    dispute,
    one_sided,
    payout,
    payout_item,
    period,
    policy,
    voucher_expert,
)
from tests.support.ledger_world import World

__all__ = ["Books"]

_CODES: dict[str, tuple[AccountKind, AccountKind]] = {
    "fee": (AccountKind.WORKER_PENDING, AccountKind.FEE),
    "hold": (AccountKind.WORKER_PENDING, AccountKind.WORKER_HELD),
    "settle": (AccountKind.WORKER_PENDING, AccountKind.WORKER_AVAILABLE),
    "reverse": (AccountKind.WORKER_PENDING, AccountKind.CLIENT_DEPOSIT),
    "unhold": (AccountKind.WORKER_HELD, AccountKind.WORKER_AVAILABLE),
    "forfeit": (AccountKind.WORKER_HELD, AccountKind.PENALTY),
    "pay": (AccountKind.WORKER_AVAILABLE, AccountKind.PAYOUT_CLEARING),
    "paid": (AccountKind.PAYOUT_CLEARING, AccountKind.EXTERNAL),
    "unpay": (AccountKind.PAYOUT_CLEARING, AccountKind.WORKER_AVAILABLE),
    "round": (AccountKind.WORKER_AVAILABLE, AccountKind.ROUNDING),
}
_OPERATORS = {AccountKind.FEE, AccountKind.PENALTY, AccountKind.ROUNDING}


class Books:
    """The writing side; use as a context, one transaction."""

    def __init__(self, world: World, path: Path, policy: Policy | None = None) -> None:
        self.world = world
        self.path = path
        self.terms = policy
        self.n_closed = 0

    def __enter__(self) -> Self:
        self._engine = open_writing_engine(LedgerFolder(self.path), self.world.identity)
        self._context = self._engine.begin()
        self.connection: Connection = self._context.__enter__()
        self.book = Book(self.connection)
        return self

    def __exit__(self, *error: object) -> None:
        self.book.flush()
        self._context.__exit__(*error)
        self._engine.dispose()

    def reader(self) -> Reader:
        return Reader(self.path)

    def post(
        self, code: str, worker: bytes, amount_uc: int, key: bytes, at_us: int
    ) -> bytes:
        """Move value of a worker, as the ledger would; return the transfer's id."""
        debit, credit = _CODES[code]
        owner = {AccountKind.EXTERNAL: EXTERNAL_OWNER}
        owner |= dict.fromkeys(_OPERATORS, EXTERNAL_OWNER)
        owner[AccountKind.CLIENT_DEPOSIT] = self.world.backbone.id
        posting = Posting(
            code=TransferCode(code),
            key=key,
            debit=(worker, debit),
            credit=(owner.get(credit, worker), credit),
            amount_uc=amount_uc,
            reference=key,
        )
        self.book.post(posting, at_us)
        self.book.flush()
        return transfer_id(TransferCode(code), key)

    def cook(self, table: str, change: str) -> None:
        """Change rows of a table that nobody may change."""
        if self.connection.dialect.name == "sqlite":
            self.connection.exec_driver_sql(f"drop trigger {table}_no_update")
        else:
            self.connection.exec_driver_sql(
                f"drop trigger {table}_no_change on {table}"
            )
        change = f"update {table} set {change}"  # noqa: S608  a test's own words
        self.connection.exec_driver_sql(change)

    def policy(self, at_us: int = 0) -> bytes:
        """Return the newest terms; the test's own are written first."""
        newest = select(policy.c.hash).order_by(policy.c.seq.desc()).limit(1)
        found: bytes | None = self.connection.execute(newest).scalar_one_or_none()
        if self.terms is not None and self.terms.content_hash != found:
            found = self.terms.content_hash
            row = {"seq": 1 + highest(self.connection, policy.c.seq), "hash": found}
            row |= {"raw": self.terms.pack(), "signature": b"?", "posted_us": at_us}
            self.connection.execute(insert(policy), [row])
        return found or b""

    def close(self, voucher_id: int, at_us: int, *, fee: int = 0, held: int = 0) -> int:
        """Close a voucher's key; return what is left for the worker at once."""
        row = self.connection.execute(
            select(voucher).where(voucher.c.id == voucher_id)
        ).one()
        owned = account.c.owner == row.worker, account.c.kind == "worker_pending"
        values = {
            "voucher_id": voucher_id,
            "content_hash": row.content_hash,
            "log_index": self.n_closed,
            "entry_hash": bytes(32),
            "policy_hash": self.policy(),
            "worker_account": self.connection.execute(
                select(account.c.id).where(*owned)
            ).scalar_one(),
            "amount_uc": row.amount_uc,
            "fee_uc": fee,
            "held_uc": held,
            "net_uc": row.amount_uc - fee - held,
            "closed_us": at_us,
            "release_due_us": at_us + 1000,
            "state": "closed",
            "holdback": "held" if held else "none",
            "holdback_due_us": at_us + 9000,
        }
        self.connection.execute(insert(closing), [values])
        self.n_closed += 1
        for code, amount_uc in (("fee", fee), ("hold", held)):
            if amount_uc:
                self.post(code, row.worker, amount_uc, row.content_hash, at_us)
        return row.amount_uc - fee - held

    def experts(self, voucher_id: int, *rows: tuple[int, int, int, int, int]) -> None:
        """Write (layer, expert, servings, rows, amount) of a closed voucher."""
        names = ("layer", "expert", "servings", "rows", "amount_uc")
        values = [dict(zip(names, row, strict=True)) for row in rows]
        self.connection.execute(
            insert(voucher_expert), [{"voucher_id": voucher_id} | row for row in values]
        )

    def settle(self, voucher_id: int, at_us: int, code: str = "settle") -> None:
        """Release (or reverse, unhold, forfeit) a closed voucher."""
        row = self.connection.execute(
            select(closing, voucher.c.worker)
            .join(voucher, voucher.c.id == closing.c.voucher_id)
            .where(closing.c.voucher_id == voucher_id)
        ).one()
        of_net = code in {"settle", "reverse"}
        amount_uc = row.net_uc if of_net else row.held_uc
        self.post(code, row.worker, amount_uc, row.content_hash, at_us)
        if of_net:
            state = "released" if code == "settle" else "reversed"
            values = {"state": state, "released_us": at_us}
        else:
            state = "released" if code == "unhold" else "forfeited"
            values = {"holdback": state, "holdback_us": at_us}
        self._change_closing(voucher_id, values)

    def dispute(self, voucher_id: int, at_us: int) -> None:
        """Open a dispute of a closed voucher."""
        self._change_closing(voucher_id, {"state": "disputed"})
        row = {
            "id": voucher_id,
            "voucher_id": voucher_id,
            "serving": 0,
            "opener": self.world.backbone.id,
            "respondent": self.world.worker.id,
            "reason": "wrong result",
            "claim": b"?",
            "claim_signature": b"?",
            "opened_us": at_us,
            "answer_due_us": at_us + 1000,
            "verdict": "",
            "state": "open",
        }
        self.connection.execute(insert(dispute), [row])

    def period(self, name: str, start_us: int, end_us: int, **changes: object) -> int:
        """Write a closed period."""
        row = {
            "id": 1,
            "name": name,
            "start_us": start_us,
            "end_us": end_us,
            "closed_us": end_us,
            "last_seq": 1,
            "log_size": self.n_closed,
            "log_root": bytes(32),
            "statement_root": bytes(32),
            "late": "",
        }
        self.connection.execute(insert(period), [row | changes])
        return 1

    def pay(
        self,
        worker: bytes,
        at_us: int,
        *items: tuple[int, str, int],
        state: str = "prepared",
        attempt: int = 1,
        rounding_uc: int = 0,
    ) -> bytes:
        """Write a payout of (voucher, part, amount) in a state; return its id."""
        owned = account.c.owner == worker, account.c.kind == "worker_available"
        account_id = self.connection.execute(select(account.c.id).where(*owned))
        amount_uc = sum(item[2] for item in items) - rounding_uc
        payout_id = worker[:15] + bytes([attempt])
        row = {
            "id": payout_id,
            "period_id": 1,
            "account_id": account_id.scalar_one(),
            "attempt": attempt,
            "idempotency_key": payout_id.hex(),
            "adapter": "bank",
            "destination": "Ada",
            "amount_uc": amount_uc,
            "currency": "EUR",
            "amount_minor": 1,
            "rate": "10000/1",
            "state": state,
            "prepared_us": at_us,
            "changed_us": at_us,
            "external_ref": None,
            "detail": "",
        }
        self.connection.execute(insert(payout), [row])
        names = ("voucher_id", "part", "amount_uc")
        values = [dict(zip(names, item, strict=True)) for item in items]
        self.connection.execute(
            insert(payout_item), [{"payout_id": payout_id} | item for item in values]
        )
        self.post("pay", worker, amount_uc, payout_id, at_us)
        if state in {"confirmed", "failed", "void"}:
            outcome = "paid" if state == "confirmed" else "unpay"
            self.post(outcome, worker, amount_uc, payout_id, at_us)
        return payout_id

    def one_sided(self, amount_uc: int, at_us: int, state: str = "held") -> None:
        """Write a final voucher that the worker has not signed."""
        row = {
            "content_hash": state.encode().ljust(32, b"1"),
            "worker": self.world.worker.id,
            "backbone": self.world.backbone.id,
            "tab": state.encode().ljust(8, b"1")[:8],
            "price_epoch": 7,
            "number": 3,
            "amount_uc": amount_uc,
            "raw": b"?",
            "backbone_signature": b"?",
            "leaves": b"",
            "filed_by": self.world.backbone.id,
            "seen_us": at_us,
            "state": state,
        }
        self.connection.execute(insert(one_sided), [row])

    def checkpoint(self, size: int, at_us: int) -> None:
        """Write a signed head of the log."""
        row = {"size": size, "root": bytes([size]) * 32, "note": b"note\n"}
        self.connection.execute(insert(checkpoint), [row | {"posted_us": at_us}])

    def _change_closing(self, voucher_id: int, values: dict[str, object]) -> None:
        self.connection.execute(
            update(closing).where(closing.c.voucher_id == voucher_id).values(values)
        )
