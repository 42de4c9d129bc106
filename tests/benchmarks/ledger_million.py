"""A ledger whose one worker has a million vouchers, written past the store.

Through the store it would take ten minutes; what is asked of it afterwards is reading.
Sums agree as in honest books: every voucher earned, nine tenths of the keys are closed,
eight tenths released. Only the vouchers' own bytes are missing.
"""

from hashlib import sha256
from pathlib import Path

from sqlalchemy import (
    BigInteger,
    Connection,
    LargeBinary,
    bindparam,
    select,
    text,
)

from ledger.accounts import AccountKind
from ledger.database import LedgerFolder, open_writing_engine
from ledger.schema import account, grant
from ledger.schema_closing import policy
from tests.support.ledger_world import NOVEMBER_US, World

__all__ = ["N_VOUCHERS", "write_million"]

N_VOUCHERS = 1_000_000
_N_EACH = 100  # vouchers of one key
_AMOUNT_UC = 1000  # of one voucher: 10 leaves at 100
_STEP_US = 2_000_000  # one every two seconds: the million ends with November
_CREDIT_UC = 10**13

_DIGEST = (
    "create or replace function digest_of(i bigint) returns bytea "
    "language sql immutable as 'select sha256(int8send(i))'"
)
_NUMBERS = (
    "with recursive number(i) as "
    "(select 1 union all select i + 1 from number where i < {n}) "
)
_VOUCHERS = """insert into voucher
select i, :worker, :backbone, substr(digest_of(i), 1, 8), 7, :each,
    digest_of(i * :each), 10 * :each, 10 * :each, :amount * :each,
    case when i <= {n} * 9 / 10 then 1 else 0 end, :raw, :raw, :raw,
    :start + i * :each * :step from number"""
_FILINGS = """insert into filing
select digest_of(i), 1 + (i - 1) / :each, 1 + (i - 1) % :each, :granted, 10, 10,
    :amount, 1, 790 * (i - 1), :start + i * :step, :start + i * :step, :backbone
    from number"""
_EARNED = """insert into transfer
select 1000 + i, substr(digest_of(i), 1, 16), :reserved, :pending, :amount, 'earn',
    digest_of(i), :start + i * :step from number"""
_CLOSINGS = """insert into closing
select i, digest_of(i * :each), i - 1, digest_of(i), :policy, :pending,
    :amount * :each, 0, 0, :amount * :each, :start + i * :each * :step,
    :start + (i + 1) * :each * :step,
    case when i <= {n} * 8 / 9 then 'released' else 'closed' end,
    case when i <= {n} * 8 / 9 then :start + (i + 1) * :each * :step else null end,
    'none', 0, null from number"""
_SETTLED = """insert into transfer
select 2000000 + i, substr(digest_of(-i), 1, 16), :pending, :available,
    :amount * :each, 'settle', digest_of(i * :each),
    :start + (i + 1) * :each * :step from number"""
_BALANCES = """update account set
    debits_uc = debits_uc + coalesce((select sum(amount_uc) from transfer
        where debit_id = account.id and seq > 1000), 0),
    credits_uc = credits_uc + coalesce((select sum(amount_uc) from transfer
        where credit_id = account.id and seq > 1000), 0)"""


def write_million(path: Path, n: int = N_VOUCHERS) -> bytes:
    """Fill a folder, `database.url` in it or not; return the worker's key."""
    world = World()
    world.now_us = NOVEMBER_US
    with world.open(path, credit_uc=_CREDIT_UC) as store:
        store.grant(world.order(ceiling_uc=_CREDIT_UC // 10)).result(60)
    engine = open_writing_engine(LedgerFolder(path), world.identity)
    with engine.begin() as connection:
        _write(connection, world, n)
    with engine.connect() as connection:  # the planner knows what there is
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.execute(text("analyze"))
    engine.dispose()
    return world.worker.id


def _write(connection: Connection, world: World, n: int) -> None:
    _name_digests(connection)
    n_keys = n // _N_EACH
    n_closed, n_released = n_keys * 9 // 10, n_keys * 8 // 10
    values: dict[str, object] = {
        "worker": world.worker.id,
        "backbone": world.backbone.id,
        "each": _N_EACH,
        "amount": _AMOUNT_UC,
        "step": _STEP_US,
        "start": NOVEMBER_US,
        "raw": b"\0",
        "granted": connection.execute(select(grant.c.hash)).scalar_one(),
        "policy": _policy(connection),
        "reserved": _account(
            connection, world.backbone.id, AccountKind.CLIENT_RESERVED
        ),
        "pending": _account(connection, world.worker.id, AccountKind.WORKER_PENDING),
        "available": _account(
            connection, world.worker.id, AccountKind.WORKER_AVAILABLE
        ),
    }
    for statement, count in (
        (_VOUCHERS, n_keys),
        (_FILINGS, n),
        (_EARNED, n),
        (_CLOSINGS, n_closed),
        (_SETTLED, n_released),
    ):
        _execute(connection, statement, count, values)
    connection.execute(text(_BALANCES))


def _execute(
    connection: Connection, statement: str, n: int, values: dict[str, object]
) -> None:
    into, _, rest = statement.partition("\n")
    typed = [
        bindparam(name, value, LargeBinary if isinstance(value, bytes) else BigInteger)
        for name, value in values.items()
        if f":{name}" in statement
    ]
    connection.execute(text(f"{into} {_NUMBERS}{rest}".format(n=n)).bindparams(*typed))


def _name_digests(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text(_DIGEST))
        return
    raw = connection.connection.driver_connection
    assert raw is not None
    raw.create_function(
        "digest_of",
        1,
        lambda i: sha256(i.to_bytes(8, "big", signed=True)).digest(),
        deterministic=True,
    )


def _policy(connection: Connection) -> bytes:
    """Return the newest policy's hash; a store without one gets one here."""
    newest = select(policy.c.hash).order_by(policy.c.seq.desc()).limit(1)
    found: bytes | None = connection.execute(newest).scalar_one_or_none()
    if found is None:
        found = bytes(32)
        row = {"seq": 1, "hash": found, "raw": b"", "signature": b"", "posted_us": 0}
        connection.execute(policy.insert(), row)
    return found


def _account(connection: Connection, owner: bytes, kind: AccountKind) -> int:
    """Return an account's id, opened if there is none."""
    found: int | None = connection.execute(
        select(account.c.id).where(
            account.c.owner == owner, account.c.kind == kind.value
        )
    ).scalar_one_or_none()
    if found is not None:
        return found
    last: int = connection.execute(
        select(account.c.id).order_by(account.c.id.desc()).limit(1)
    ).scalar_one()
    row = {
        "id": last + 1,
        "owner": owner,
        "kind": kind.value,
        "opened_us": NOVEMBER_US,
        "debits_uc": 0,
        "credits_uc": 0,
    }
    connection.execute(account.insert(), row)
    return last + 1
