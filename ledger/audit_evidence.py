"""Audit: price tables, policies and grants, each with its signature and its columns.

Contract: what the market and the ledger signed is read from the received bytes; every
column beside them must say the same. Each grant demands the transfer that reserved its
ceiling; at the end `check_grant_states` compares what is used of it and demands the
transfer that gave the rest back. Reads only; raises `DifferenceFound`.
"""

from sqlalchemy import Connection, select

from ledger.accounts import AccountKind, TransferCode
from ledger.audit_books import Books, naming, same
from ledger.errors import DifferenceFound
from ledger.grant import verify_grant
from ledger.policy import verify_policy
from ledger.prices import verify_price_table
from ledger.schema import grant, price_table, transfer
from ledger.schema_closing import policy

__all__ = ["check_grant_states", "check_grants", "check_policies", "check_prices"]

_GRANT_COLUMNS = (
    "worker",
    "backbone",
    "serial",
    "price_table_hash",
    "ceiling_uc",
    "expiry_us",
)


def check_prices(connection: Connection, books: Books) -> None:
    """Check every price table: the market's signature, its network, its columns."""
    for row in connection.execute(select(price_table)):
        name = f"price table {row.hash[:4].hex()}"
        with naming(name):
            table = verify_price_table(row.raw, row.signature, books.owner.market)
        same(name, "hash", row.hash, table.content_hash)
        same(name, "network", table.network, books.owner.network)
        same(name, "epoch", row.epoch, table.epoch)
        same(name, "model", row.manifest_hash, table.manifest_hash)
        books.prices[row.hash] = table
        books.report.price_tables += 1


def check_policies(connection: Connection, books: Books) -> None:
    """Check every policy: the ledger's signature, its name, its order in time."""
    last_us = 0
    for row in connection.execute(select(policy).order_by(policy.c.seq)):
        name = f"policy {row.hash[:4].hex()}"
        with naming(name):
            terms = verify_policy(row.raw, row.signature, books.owner.ledger)
        same(name, "hash", row.hash, terms.content_hash)
        same(name, "set", row.posted_us, terms.since_us)
        if row.posted_us < last_us:
            raise DifferenceFound(f"{name} was set before the one ahead of it")
        last_us = row.posted_us
        books.policies[row.hash] = terms
        books.report.policies += 1


def check_grants(connection: Connection, books: Books) -> None:
    """Check every grant: the ledger's signature, its prices, its columns."""
    for row in connection.execute(select(grant)):
        name = f"grant {row.hash[:4].hex()}"
        with naming(name):
            granted = verify_grant(row.raw, row.signature, books.owner.ledger)
        same(name, "hash", row.hash, granted.content_hash)
        for column in _GRANT_COLUMNS:
            same(name, column, getattr(row, column), getattr(granted, column))
        same(name, "network", granted.network, books.owner.network)
        prices = books.prices.get(row.price_table_hash)
        if prices is None:
            raise DifferenceFound(f"{name}: its price table is missing")
        same(name, "model", granted.manifest_hash, prices.manifest_hash)
        books.grants[row.hash] = granted
        client = granted.backbone
        books.expect(
            TransferCode.RESERVE,
            row.hash,
            (
                (client, AccountKind.CLIENT_DEPOSIT),
                (client, AccountKind.CLIENT_RESERVED),
            ),
            granted.ceiling_uc,
            row.hash,
            posted_us=row.posted_us,
        )
        books.report.grants += 1


def check_grant_states(connection: Connection, books: Books) -> None:
    """Check what is used of each grant, and that the rest went back when released."""
    columns = (grant.c.hash, grant.c.used_uc, grant.c.state)
    for content_hash, used_uc, state in connection.execute(select(*columns)):
        name = f"grant {content_hash[:4].hex()}"
        granted = books.grants[content_hash]
        same(name, "used", used_uc, books.used_uc[content_hash])
        if used_uc > granted.ceiling_uc:
            raise DifferenceFound(f"{name}: {used_uc} used of {granted.ceiling_uc}")
        if state != "released":
            continue
        client = granted.backbone
        books.expect(
            TransferCode.RELEASE,
            content_hash,
            (
                (client, AccountKind.CLIENT_RESERVED),
                (client, AccountKind.CLIENT_DEPOSIT),
            ),
            granted.ceiling_uc - used_uc,
            content_hash,
        )
    early = connection.execute(
        select(grant.c.hash)
        .join(transfer, transfer.c.reference == grant.c.hash)
        .where(
            transfer.c.code == TransferCode.RELEASE.value,
            transfer.c.posted_us <= grant.c.expiry_us,
        )
    ).first()
    if early is not None:
        raise DifferenceFound(f"grant {early.hash[:4].hex()}: released before it ended")
