"""A ledger's database with closed vouchers for its log, without what led there.

Vouchers are cheap: real bytes, signatures of zeros (the log does not look at them),
unless a test closes real ones.
"""

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, func, insert, select

from ledger.database import LedgerFolder, Reader, open_writing_engine
from ledger.database_url import read_url
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.publisher import Publisher
from ledger.office import Office, Operation
from ledger.policy import Policy, sign_policy
from ledger.schema import account, voucher
from ledger.schema_closing import closing, policy
from ledger.settlement import GrantPolicy
from ledger.voucher import SignedVoucher, Voucher
from mobile_worker.session.identity import Identity
from tests.support.ledger_world import NOVEMBER_US, World, paper_tab

__all__ = ["LogWorld"]

TERMS = Policy()
POLICY = TERMS.content_hash


@cache
def empty_ledger() -> bytes:
    """The database file of a ledger without a row, made once: tables take time."""
    with tempfile.TemporaryDirectory() as name:
        folder = LedgerFolder(Path(name))
        open_writing_engine(folder, World().identity).dispose()
        return folder.database.read_bytes()


class FakeDesk:
    """What a job of the log needs of the writer's desk."""

    def __init__(self, connection: Connection, now_us: int, path: Path) -> None:
        self.connection = connection
        self.now_us = now_us
        self.folder = LedgerFolder(path)


class LogWorld:
    """A database that is written row by row, and its log."""

    def __init__(self, path: Path, ledger: Identity | None = None) -> None:
        """Start empty; `ledger` is an identity that lies beside the folder."""
        self.path = path
        self.world = World()
        if ledger is not None:
            self.world.ledger.id = ledger.peer_id
            self.world.ledger.sign = ledger.sign  # type: ignore[method-assign]
        self.now_us = NOVEMBER_US
        folder = LedgerFolder(path)
        path.mkdir(parents=True, exist_ok=True)
        if read_url(folder.database_url) is None and ledger is None:
            folder.database.write_bytes(empty_ledger())
        self.engine = open_writing_engine(folder, self.world.identity)
        if self.engine.dialect.name == "sqlite":
            with self.engine.connect() as connection:
                connection.connection.execute("pragma synchronous = off")
        self.template = paper_tab().next(0, 1, 2, final=True)[0]
        with self.engine.begin() as connection:
            signature = sign_policy(TERMS.pack(), self.world.ledger.sign)
            row = {"seq": 1, "hash": POLICY, "raw": TERMS.pack(), "posted_us": 0}
            connection.execute(insert(policy), [row | {"signature": signature}])
            row = {"id": 1, "owner": self.world.worker.id, "kind": "worker_pending"}
            sums = {"opened_us": 0, "debits_uc": 0, "credits_uc": 0}
            connection.execute(insert(account), [row | sums])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.dispose()

    @property
    def log(self) -> Path:
        return self.path / "log"

    def reader(self) -> Reader:
        return Reader(self.path)

    def publisher(self) -> Publisher:
        return Publisher(self.reader(), self.world.ledger.sign)

    def publish(self) -> Any:
        return self.publisher().publish(self.submit)

    def submit(self, job: Callable[[Any], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self.engine.begin() as connection:
            future.set_result(job(FakeDesk(connection, self.now_us, self.path)))
        return future

    def operate(self, operation: Operation, **params: object) -> Mapping[str, object]:
        """Run an operation as the writer would."""

        def job(desk: Any) -> Mapping[str, object]:
            sign = self.world.ledger.sign
            return operation(Office(desk=desk, sign=sign, policy=GrantPolicy()), params)

        return self.submit(job).result()

    def close(self, n: int = 1) -> list[bytes]:
        """Close so many vouchers more; return their entries."""
        with self.engine.begin() as connection:
            done = connection.execute(select(func.count()).select_from(closing))
            first = done.scalar_one()
            made = [self._rows(index) for index in range(first, first + n)]
            for table, at in ((voucher, 0), (closing, 1)):
                if made:
                    connection.execute(insert(table), [row[at] for row in made])
        return [row[2] for row in made]

    def _rows(self, index: int) -> tuple[dict[str, Any], dict[str, Any], bytes]:
        parsed = Voucher.parse(self.template.raw)
        made = dataclasses.replace(parsed, tab=index.to_bytes(8, "big"))
        raw = made.pack()
        signed = SignedVoucher(
            raw=raw, worker_signature=bytes(64), backbone_signature=bytes(64)
        )
        entry = pack_entry(signed, POLICY)
        stored = {
            "id": index + 1,
            "worker": made.worker,
            "backbone": made.backbone,
            "tab": made.tab,
            "price_epoch": made.price_epoch,
            "number": made.number,
            "content_hash": sha256(raw).digest(),
            "leaves": made.leaves,
            "rows": made.rows,
            "amount_uc": made.amount_uc,
            "final": 1,
            "raw": raw,
            "worker_signature": bytes(64),
            "backbone_signature": bytes(64),
            "posted_us": self.now_us,
        }
        closed = {
            "voucher_id": index + 1,
            "content_hash": sha256(raw).digest(),
            "log_index": index,
            "entry_hash": entry_hash(entry),
            "policy_hash": POLICY,
            "worker_account": 1,
            "amount_uc": made.amount_uc,
            "fee_uc": 0,
            "held_uc": 0,
            "net_uc": made.amount_uc,
            "closed_us": self.now_us,
            "release_due_us": self.now_us,
            "state": "closed",
            "holdback": "none",
            "holdback_due_us": self.now_us,
        }
        return stored, closed, entry
