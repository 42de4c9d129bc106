#!/usr/bin/env python3
"""Verify a ledger from its files alone: a second program for the same books.

    python independent_verifier.py FOLDER --network ID --ledger ID --market ID
        [--checkpoint FILE]...

Contract: read-only; imports nothing of the project, only the standard library and
`cryptography` (Ed25519). It was written from the formats in docs/reference/receipts.md,
not from the ledger's code, and shares none of it: an error in the ledger's own
`p2pmoe ledger verify` is not repeated here. FOLDER is a ledger's folder or a backup of
one. The three ids (64 hex digits) must come from somewhere else than from FOLDER: books
can be consistent and still be somebody else's. A checkpoint of the log that was kept
elsewhere, by a witness or since the last audit, may be handed in: the log must still
contain it, so nobody rewrote what was closed before.

Everything is derived again from what others signed: prices (market), grants and
policies (ledger), vouchers (worker and backbone) and the leaves under them, disputes
(both sides), draws of servings to look at again (ledger). From these follow closings,
log, payouts and all transfers, from the transfers all balances; what the database says
must be the same. Exit codes: 0 all
agrees, 1 the first difference was found (named in one line), 2 the folder cannot be
read.
"""

import argparse
import base64
import os
import re
import sqlite3
import struct
import sys
import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

__all__ = ["Difference", "Ids", "main", "verify"]

SCHEMA = 4
LEAF = struct.Struct(">B8sIQHHHI16s16s8sq")
GRANT = struct.Struct(">4sB32s32s32s32s32sqQI8s")
PRICES = struct.Struct(">4sB32s32sIqI")
VOUCHER_HEAD = struct.Struct(">4sB32s32sB32s32s8sII32sBH")
VOUCHER_TAIL = struct.Struct(">IQq32s32s32sQ")
POLICY = struct.Struct(">4sBIIQQQQQ")
POLICY_2 = struct.Struct(">4sBIIQQQQQQ")
STANDBY = struct.Struct(">4sB32s32sIqq32sqII")
SCARCITY = struct.Struct(">IQIII")
HOLDING = struct.Struct(">I32s8sI")
CLAIM = struct.Struct(">4sB32s32sBQ79s32sBI")
ANSWER = struct.Struct(">4sB32s32sQ32sBI")
BEACON = struct.Struct(">4sB32sQ32sQ32s")
STATEMENT = struct.Struct(">4sB32sqq4q11q4q")
STATEMENT_2 = struct.Struct(">4sB32sqq4q12q4q")
PACKED_HEAD = struct.Struct(">4sBQI")
PACKED_BLOCK = 1024 * LEAF.size
PAIR = struct.Struct(">II")
MAX_VOUCHER_UC = 2**53 - 1
NOBODY = bytes(32)  # owner of the accounts of the operator and of the outside
WORLD = (NOBODY, "external")
FEE, PENALTY, POT = (NOBODY, "fee"), (NOBODY, "penalty"), (NOBODY, "standby")
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


class Difference(Exception):
    """Something stored is not what the signed evidence says."""


@dataclass(frozen=True)
class Ids:
    """Whose books they must be: three 32-byte keys."""

    network: bytes
    ledger: bytes
    market: bytes


@dataclass
class Books:
    """What was derived so far."""

    ids: Ids
    db: sqlite3.Connection
    folder: Path
    prices: dict = field(default_factory=dict)  # hash -> (manifest, epoch, price of)
    grants: dict = field(default_factory=dict)  # hash -> Grant row, checked
    vouchers: dict = field(default_factory=dict)  # id -> parsed voucher
    policies: list = field(default_factory=list)  # (since, hash, terms), in order
    closings: list = field(default_factory=list)  # rows, in order of the log
    entries: list = field(default_factory=list)  # of the log, made again
    leaves: dict = field(default_factory=dict)  # (voucher id, serving) of disputes
    disputed: set = field(default_factory=set)  # ids of vouchers with a dispute
    disputes: dict = field(default_factory=lambda: defaultdict(list))
    cheats: dict = field(default_factory=lambda: defaultdict(list))  # worker -> when
    convictions: list = field(default_factory=list)  # rows of failed audits
    gone: dict = field(default_factory=dict)  # voucher id -> when leaves were pruned
    files: dict = field(default_factory=dict)  # number -> state of a leaf file
    standby: dict = field(default_factory=dict)  # (paper, worker) -> (amount, when)
    used_uc: dict = field(default_factory=lambda: defaultdict(int))  # by grant
    due: dict = field(default_factory=dict)  # transfer id -> what it must be
    places: dict = field(default_factory=lambda: defaultdict(list))  # of leaves
    counts: dict = field(default_factory=lambda: defaultdict(int))

    def expect(self, code, key, sides, amount, reference, at_us=None):
        """Note a transfer that must be there; nothing moves for an amount of zero."""
        if amount:
            ident = transfer_id(code, key)
            same(f"{code} {ident.hex()}", "given twice", ident in self.due, False)
            self.due[ident] = (code, *sides, amount, reference, at_us)


def verify(folder: Path, ids: Ids, kept: tuple = ()) -> dict:
    """Check a ledger's folder; return how many of each thing were found right.

    Args:
        folder: the ledger's folder, or a backup of it.
        ids: whose books they must be.
        kept: checkpoints from elsewhere that the log must still contain, as bytes.

    Raises:
        Difference: the first thing that is not as it must be.
        OSError, sqlite3.Error: the folder cannot be read.
    """
    shown = read_file(folder / "log" / "checkpoint")  # before the database
    db = open_database(folder / "ledger.sqlite3")
    try:
        db.execute("begin")  # one moment of a ledger that runs
        return check_books(Books(ids, db, folder), shown, kept)
    finally:
        db.close()


def check_books(books: Books, shown, kept) -> dict:
    """Run every check in order; return how many of each thing were found right."""
    try:
        check_identity(books)
        check_prices(books)
        check_policies(books)
        check_grants(books)
        check_vouchers(books)
        check_leaf_files(books)
        check_releases(books)
        check_beacons(books)
        check_disputes(books)
        check_equivocations(books)
        check_closings(books)
        check_convictions(books)
        check_one_sided(books)
        check_standby(books)
        check_rejected(books)
        check_log(books, shown, kept)
        check_payouts(books)
        check_transfers(books)
        check_balances(books)
        check_periods(books)
    except (ArithmeticError, LookupError, TypeError, ValueError, struct.error) as exc:
        raise Difference(f"the database holds what has no sense: {exc!r}") from exc
    return dict(books.counts)


# -- bytes and signatures ------------------------------------------------------


def same(name, what, stored, derived):
    """Raise `Difference` unless two values are the same, of one type."""
    if stored != derived or type(stored) is not type(derived):
        raise Difference(f"{name}: {what} is {shown(stored)}, must be {shown(derived)}")


def must(name, claim, is_so) -> None:
    """Raise `Difference` unless a claim is true."""
    if not is_so:
        raise Difference(f"{name}: not so: {claim}")


def shown(value):
    """Return a value as it appears in a message."""
    if isinstance(value, bytes):
        long = len(value) > 64
        return sha256(value).hexdigest()[:16] if long else value[:8].hex()
    if isinstance(value, tuple | list):
        return f"({', '.join(shown(each) for each in value[:6])})"
    return repr(value)[:80]


def unpack(name, layout, raw, magic, of_version=1):
    """Return the fields behind magic and version."""
    if not isinstance(raw, bytes) or len(raw) < layout.size:
        raise Difference(f"{name}: {len(raw or b'')} bytes are too few")
    found, version, *fields = layout.unpack_from(raw)
    same(name, "magic and version", (found, version), (magic, of_version))
    return fields


def signed(name, key, domain, raw, signature):
    """Check a signature over `p2pmoe/DOMAIN/v1`, a zero byte, and the bytes."""
    message = b"p2pmoe/" + domain + b"/v1\0" + raw
    try:
        public_key(key).verify(bytes(signature), message)
    except (InvalidSignature, TypeError, ValueError):
        raise Difference(f"{name}: the signature of {shown(key)} is wrong") from None


@lru_cache(maxsize=4096)
def public_key(raw):
    """Return an Ed25519 key; one that is malformed or of small order is an error."""
    number = int.from_bytes(raw, "little")
    y = number % 2**255
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, -1, P) % P  # x squared; v is never zero, as -1/D is no square
    x = pow(x, (P + 3) // 8, P)
    if (x * x * v - u) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x * v - u) % P:
        raise ValueError("no point of the curve")
    for _ in range(3):  # eight times the point
        t = D * x * x * y * y % P
        x, y = (
            2 * x * y * pow(1 + t, -1, P) % P,
            (y * y + x * x) * pow(1 - t, -1, P) % P,
        )
    if (x, y) == (0, 1):
        raise ValueError("a point of small order")
    return Ed25519PublicKey.from_public_bytes(raw)


# Of two outcomes that exclude each other both are numbered as the first.
NUMBERED_AS = {"reverse": "settle", "forfeit": "unhold", "unpay": "paid"}


def transfer_id(code, key):
    """Return the 16-byte id of a transfer, given its code and business key."""
    named = NUMBERED_AS.get(code, code).encode()
    return sha256(b"p2pmoe/transfer/v1\0" + named + b"\0" + key).digest()[:16]


def sum_root(leaves):
    """Return the root of the Merkle-sum tree over (leaf, amount) pairs."""
    level = [(sha256(b"\0" + leaf).digest(), amount) for leaf, amount in leaves]
    if not level:
        return sha256(b"").digest()
    while len(level) > 1:
        above = [
            (
                sha256(
                    b"\1" + left + right + l_sum.to_bytes(8) + r_sum.to_bytes(8)
                ).digest(),
                l_sum + r_sum,
            )
            for (left, l_sum), (right, r_sum) in zip(
                level[::2], level[1::2], strict=False
            )
        ]
        level = above + ([level[-1]] if len(level) % 2 else [])
    return level[0][0]


# -- the database --------------------------------------------------------------


def open_database(path: Path) -> sqlite3.Connection:
    """Open the ledger's SQLite file, read-only."""
    path.stat()
    uri = f"{path.resolve().as_uri()}?mode=ro"
    log = path.with_name(f"{path.name}-wal")
    if not os.access(path.parent, os.W_OK) and not (
        log.exists() and log.stat().st_size
    ):
        uri += "&immutable=1"  # a read-only copy: no room for the log's index
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    db.row_factory = sqlite3.Row
    # A view in a table's place could be computed without end.
    objects = db.execute("select type, name, rootpage from sqlite_master")
    for kind, name, page in objects:
        if kind == "view" or (kind == "table" and not page):
            raise Difference(f"database: {name[:40]!r} is no table of its own")
    return db


def check_identity(books: Books) -> None:
    """Check whose ledger the folder says it is, and its schema."""
    version = books.db.execute("select version from schema_version").fetchone()[0]
    same("database", "schema", version, SCHEMA)
    (row,) = books.db.execute("select * from identity").fetchall()
    for name in ("network", "ledger", "market"):
        same("folder", name, row[name], getattr(books.ids, name))


def check_prices(books: Books) -> None:
    """Check every price table: the market's signature, its order, its columns."""
    for row in books.db.execute("select * from price_table"):
        name, raw = f"price table {shown(row['hash'])}", row["raw"]
        network, manifest, epoch, base, n = unpack(name, PRICES, raw, b"PMPT")
        signed(name, books.ids.market, b"prices", raw, row["signature"])
        same(name, "network", network, books.ids.network)
        same(name, "length", len(raw), PRICES.size + n * PAIR.size)
        pairs = list(PAIR.iter_unpack(raw[PRICES.size :]))
        experts = [expert for expert, _ in pairs]
        same(name, "order", experts, sorted(set(experts)))
        must(name, "base is an amount", 0 <= base <= MAX_VOUCHER_UC)
        stored = (row["hash"], row["epoch"], row["manifest_hash"])
        same(name, "columns", stored, (sha256(raw).digest(), epoch, manifest))
        books.prices[row["hash"]] = (manifest, epoch, base, dict(pairs))
        books.counts["price_tables"] += 1


def check_policies(books: Books) -> None:
    """Check the operator's terms: the ledger's signature, since when they hold."""
    names = "fee_ppm holdback_ppm holdback_us dispute_us answer_us retention_us since"
    names += " standby"
    for row in books.db.execute("select * from policy order by seq"):
        name, raw = f"policy {shown(row['hash'])}", row["raw"]
        is_second = len(raw) == POLICY_2.size
        layout = POLICY_2 if is_second else POLICY
        fields = unpack(name, layout, raw, b"PMPO", 1 + is_second)
        fields = fields if is_second else [*fields, 0]
        terms = dict(zip(names.split(), fields, strict=True))
        same(name, "length", len(raw), layout.size)
        same(name, "has standby pay", terms["standby"] > 0, is_second)
        signed(name, books.ids.ledger, b"policy", raw, row["signature"])
        same(name, "hash", row["hash"], sha256(raw).digest())
        same(name, "since", row["posted_us"], terms["since"])
        if books.policies:
            must(name, "is newer", terms["since"] >= books.policies[-1][0])
        books.policies.append((terms["since"], row["hash"], terms))
        books.counts["policies"] += 1


def check_grants(books: Books) -> None:
    """Check every grant: the ledger's signature, its prices, its columns."""
    names = "worker backbone serial price_table_hash ceiling_uc expiry_us".split()
    for row in books.db.execute("select * from granted"):
        name, raw = f"grant {shown(row['hash'])}", row["raw"]
        fields = unpack(name, GRANT, raw, b"PMGR")
        same(name, "length", len(raw), GRANT.size)
        signed(name, books.ids.ledger, b"grant", raw, row["signature"])
        network, manifest, worker, backbone, prices, ceiling, expiry, _, serial = fields
        derived = (worker, backbone, serial, prices, ceiling, expiry)
        for column, value in zip(names, derived, strict=True):
            same(name, column, row[column], value)
        same(name, "hash", row["hash"], sha256(raw).digest())
        same(name, "network", network, books.ids.network)
        must(name, "prices are there", prices in books.prices)
        same(name, "model", manifest, books.prices[prices][0])
        books.grants[row["hash"]] = row
        books.expect(
            "reserve",
            row["hash"],
            ((backbone, "client_deposit"), (backbone, "client_reserved")),
            ceiling,
            row["hash"],
            row["posted_us"],
        )
        books.counts["grants"] += 1


# -- vouchers, filings, leaves -------------------------------------------------


def parse_voucher(name, raw):
    """Return a voucher's fields by name; its own numbers must agree."""
    head = unpack(name, VOUCHER_HEAD, raw, b"PMVO")
    names = "network manifest profile worker backbone tab epoch number previous final n"
    voucher = dict(zip(names.split(), head, strict=True))
    end = VOUCHER_HEAD.size + voucher["n"] * PAIR.size
    same(name, "length", len(raw), end + VOUCHER_TAIL.size)
    ranges = list(PAIR.iter_unpack(raw[VOUCHER_HEAD.size : end]))
    names = "leaves rows amount prices grant root issued_us"
    voucher |= zip(names.split(), VOUCHER_TAIL.unpack_from(raw, end), strict=True)
    last = -2
    for first, upto in ranges:
        must(name, "ranges are in order", last + 1 < first <= upto)
        last = upto
    must(name, "amount is one", 0 <= voucher["amount"] <= MAX_VOUCHER_UC)
    must(name, "final is a flag", voucher["final"] in {0, 1})
    first_one = (voucher["number"] == 1, voucher["number"] > 0)
    same(name, "number", first_one, (voucher["previous"] == bytes(32), True))
    voucher["ranges"], voucher["hash"] = ranges, sha256(raw).digest()
    return voucher


def check_vouchers(books: Books) -> None:
    """Check every current voucher: signatures, columns, leaves, root, filings."""
    for row in books.db.execute("select * from leaf_file_state"):
        books.files[row["number"]] = row
    disputed = books.db.execute("select voucher_id from dispute")
    books.disputed = {voucher_id for (voucher_id,) in disputed}
    for row in books.db.execute("select * from voucher order by id"):
        name = f"voucher {shown(row['content_hash'])} of tab {row['tab'].hex()}"
        voucher = parse_voucher(name, row["raw"])
        for signer in ("worker", "backbone"):
            signature = row[f"{signer}_signature"]
            signed(name, voucher[signer], b"voucher", row["raw"], signature)
        same(name, "network", voucher["network"], books.ids.network)
        for column, value in {
            "content_hash": voucher["hash"],
            "price_epoch": voucher["epoch"],
            "amount_uc": voucher["amount"],
            **{
                key: voucher[key]
                for key in "worker backbone tab number final leaves rows".split()
            },
        }.items():
            same(name, column, row[column], value)
        voucher |= {key: row[key] for key in ("worker_signature", "backbone_signature")}
        voucher |= {"raw": row["raw"], "posted_us": row["posted_us"], "name": name}
        books.vouchers[row["id"]] = voucher
        leaves = check_filings(books, name, row, voucher)
        check_experts(books, name, row["id"], leaves)
        books.counts["vouchers"] += 1


def check_filings(books: Books, name, row, voucher):
    """Check what each filing of a key added, and that together they are the voucher.

    Return {serving: (leaf, amount)}, or None where leaves were pruned.
    """
    statement = "select * from filing where voucher_id = ? order by number"
    leaves, total, last, last_us, is_pruned = {}, [0, 0, 0], None, 0, False
    for filed in books.db.execute(statement, (row["id"],)):
        what = f"{name}, filing {filed['number']}"
        check_covered(books, what, filed, voucher)
        added = read_filing(books, what, filed, voucher)
        is_pruned |= added is None
        for serving, leaf in (added or {}).items():
            same(what, f"serving {serving} came before", serving in leaves, False)
            leaves[serving] = leaf
        sums = (filed["leaves"], filed["rows"], filed["amount_uc"])
        total = [before + new for before, new in zip(total, sums, strict=True)]
        must(what, "time goes on", filed["posted_us"] >= last_us)
        last, last_us = filed, filed["posted_us"]
        books.used_uc[filed["grant_hash"]] += filed["amount_uc"]
        numbers = voucher["epoch"].to_bytes(4) + filed["number"].to_bytes(4)
        key = voucher["worker"] + voucher["backbone"] + voucher["tab"] + numbers
        debit = (voucher["backbone"], "client_reserved")
        books.expect(
            "earn",
            key,
            (debit, (voucher["worker"], "worker_pending")),
            filed["amount_uc"],
            filed["content_hash"],
            filed["posted_us"],
        )
    if last is None:
        raise Difference(f"{name}: no filing")
    same(name, "sums", total, [voucher["leaves"], voucher["rows"], voucher["amount"]])
    same(name, "last number", last["number"], voucher["number"])
    same(name, "last filing", last["content_hash"], voucher["hash"])
    same(name, "last grant", last["grant_hash"], voucher["grant"])
    same(name, "issued", last["issued_us"], voucher["issued_us"])
    same(name, "posted", row["posted_us"], last_us)
    n_accepted = sum(upto - first + 1 for first, upto in voucher["ranges"])
    same(name, "accepted servings", n_accepted, voucher["leaves"])
    if is_pruned:
        books.counts["pruned_receipts"] += n_accepted
        return None
    accepted = [n for first, upto in voucher["ranges"] for n in range(first, upto + 1)]
    same(name, "servings", sorted(leaves), accepted)
    root = sum_root([leaves[serving] for serving in accepted])
    same(name, "root", voucher["root"], root)
    if row["id"] in books.disputed:
        books.leaves |= {(row["id"], at): leaf for at, (leaf, _) in leaves.items()}
    books.counts["receipts"] += n_accepted
    return leaves


def check_experts(books: Books, name, voucher_id, leaves) -> None:
    """Check a closed voucher's sums by expert, which outlive its leaves."""
    is_closed = "select count(*) from closing where voucher_id = ?"
    (n_closed,) = books.db.execute(is_closed, (voucher_id,)).fetchone()
    query = "select * from voucher_expert where voucher_id = ?"
    rows = books.db.execute(query, (voucher_id,)).fetchall()
    voucher = books.vouchers[voucher_id]
    is_due = n_closed > 0 and voucher["leaves"] > 0
    same(name, "has sums by expert", bool(rows), is_due)
    columns = ("servings", "rows", "amount_uc")
    found = {
        (row["layer"], row["expert"]): [row[column] for column in columns]
        for row in rows
    }
    sums = [sum(column) for column in zip(*found.values(), strict=True)]
    wanted = [voucher["leaves"], voucher["rows"], voucher["amount"]]
    same(name, "sums of all experts", sums, wanted if rows else [])
    if leaves is None or not rows:
        return
    derived = defaultdict(lambda: [0, 0, 0])
    for leaf, amount in leaves.values():
        _, _, _, _, layer, expert, n_rows, *_ = LEAF.unpack(leaf)
        total = derived[layer, expert]
        total[:] = total[0] + 1, total[1] + n_rows, total[2] + amount
    same(name, "sums by expert", found, dict(derived))


def check_covered(books: Books, name, filed, voucher) -> None:
    """Check that a grant for just this worker, backbone and prices covers a filing."""
    grant = books.grants.get(filed["grant_hash"])
    if grant is None:
        raise Difference(f"{name}: there is no such grant")
    for key in ("worker", "backbone"):
        same(name, f"the grant's {key}", grant[key], voucher[key])
    same(name, "the grant's prices", grant["price_table_hash"], voucher["prices"])
    manifest, epoch, _, _ = books.prices[voucher["prices"]]
    same(name, "model", voucher["manifest"], manifest)
    same(name, "price epoch", voucher["epoch"], epoch)


def read_filing(books: Books, name, filed, voucher):
    """Return {serving: (leaf, amount)} of a filing, each leaf priced again.

    None where they were pruned.
    """
    number, offset = filed["leaf_file"], filed["leaf_offset"]
    length = filed["leaves"] * LEAF.size
    books.places[number].append((offset, offset + length))
    state = books.files.get(number)
    if length and state is not None and state["state"] == "pruned":
        books.gone[filed["voucher_id"]] = state["changed_us"]
        return None
    block = read_leaves(books.folder, number, offset, length) if length else b""
    same(name, "bytes of leaves", len(block), length)
    _, _, base, multipliers = books.prices[voucher["prices"]]
    found, rows, amount = {}, 0, 0
    for at in range(0, length, LEAF.size):
        leaf = block[at : at + LEAF.size]
        version, tab, serving, _, layer, expert, n_rows, epoch, *_, paid = LEAF.unpack(
            leaf
        )
        what = f"{name}, leaf {serving}"
        expected = (1, voucher["tab"], voucher["epoch"])
        same(what, "version, tab, epoch", (version, tab, epoch), expected)
        price = base * multipliers.get(layer << 16 | expert, 1 << 16) >> 16
        same(what, "has rows and was not there", (n_rows > 0, serving in found), (1, 0))
        same(what, "amount", paid, n_rows * price)
        found[serving] = (leaf, paid)
        rows, amount = rows + n_rows, amount + paid
    sums = (filed["rows"], filed["amount_uc"])
    same(name, "rows and amount", sums, (rows, amount))
    return found


def read_leaves(folder: Path, number, offset, length):
    """Return bytes of a leaf file, plain or packed."""
    plain = folder / "leaves" / f"{number:08d}.leaves"
    packed = plain.with_suffix(".packed")
    try:
        if not plain.exists() and packed.exists():
            return read_packed(packed, offset, length)
        if offset + length > plain.stat().st_size:
            raise Difference(f"leaf file {number} ends before {offset + length}")
        with plain.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except OSError as exc:
        raise Difference(f"leaf file {number}: {exc.strerror}") from exc


def read_packed(path: Path, offset, length):
    """Return plain bytes of a packed leaf file: blocks of leaves, column by column."""
    with path.open("rb") as file:
        head = file.read(PACKED_HEAD.size)
        total, n_blocks = unpack(path.name, PACKED_HEAD, head, b"PMLP")
        must(path.name, "it is of a size that can be", total <= 2**32)
        same(path.name, "blocks", n_blocks, -(-total // PACKED_BLOCK))
        must(path.name, "reaches far enough", offset + length <= total)
        sizes = [int.from_bytes(file.read(4)) for _ in range(n_blocks)]
        first, last = offset // PACKED_BLOCK, (offset + length - 1) // PACKED_BLOCK
        file.seek(sum(sizes[:first]), os.SEEK_CUR)
        blocks = []
        for number in range(first, last + 1):
            n_bytes = min(PACKED_BLOCK, total - number * PACKED_BLOCK)
            try:
                columns = zlib.decompressobj().decompress(
                    file.read(sizes[number]), n_bytes + 1
                )
            except zlib.error as exc:
                raise Difference(f"{path.name}, block {number}: {exc}") from exc
            same(path.name, f"bytes of block {number}", len(columns), n_bytes)
            n_leaves = n_bytes // LEAF.size
            blocks += [columns[at::n_leaves] for at in range(n_leaves)]
    start = offset - first * PACKED_BLOCK
    return b"".join(blocks)[start : start + length]


def check_leaf_files(books: Books) -> None:
    """Check that the filings' places fill each leaf file without gap or overlap."""
    lengths = dict(books.db.execute("select number, length_bytes from leaf_file"))
    for number in books.places.keys() | lengths.keys():
        end = 0
        for first, upto in sorted(books.places[number]):
            same(f"leaf file {number}", "next place", first, end)
            end = upto
        same(f"leaf file {number}", "length", lengths.get(number), end)
        if number in books.files and books.files[number]["state"] == "packed":
            plain = sha256()
            for at in range(0, end, PACKED_BLOCK):
                size = min(PACKED_BLOCK, end - at)
                plain.update(read_leaves(books.folder, number, at, size))
            digest = books.files[number]["digest"]
            same(f"leaf file {number}", "digest", digest, plain.digest())


def check_releases(books: Books) -> None:
    """Check what is used of each grant, and that the rest went back once released."""
    for row in books.grants.values():
        name, used = f"grant {shown(row['hash'])}", books.used_uc[row["hash"]]
        same(name, "used", row["used_uc"], used)
        must(name, "is within its ceiling", used <= row["ceiling_uc"])
        if row["state"] == "released":
            client = row["backbone"]
            books.expect(
                "release",
                row["hash"],
                ((client, "client_reserved"), (client, "client_deposit")),
                row["ceiling_uc"] - used,
                row["hash"],
            )
    statement = "select * from transfer where code = 'release'"
    for moved in books.db.execute(statement):
        row = books.grants.get(moved["reference"])
        name = f"transfer {moved['id'].hex()}"
        must(name, "releases a grant", row is not None)
        must(name, "grant was over", moved["posted_us"] > row["expiry_us"])


def check_rejected(books: Books) -> None:
    """Check that what was refused is named by its bytes."""
    for row in books.db.execute("select * from rejected"):
        name = f"rejected {shown(row['digest'])}"
        signatures = row["worker_signature"] + row["backbone_signature"]
        if len(row["raw"]) < 8192:  # longer ones are cut
            derived = sha256(row["raw"] + signatures).digest()
            same(name, "digest", row["digest"], derived)
            if row["worker"]:  # put down to somebody, so the bytes must say so
                voucher = parse_voucher(name, row["raw"])
                stored = [row["worker"], row["backbone"], row["amount_uc"]]
                wanted = [voucher[key] for key in ("worker", "backbone", "amount")]
                same(name, "worker, backbone, amount", stored, wanted)
        books.counts["rejected"] += 1


# -- disputes, proofs, closings ------------------------------------------------

RECOMPUTED = re.compile(r"recomputed ([0-9a-f]{32}|nothing) by [^\n]+")
REVERSED = re.compile(r"voucher reversed by (dispute|audit) ([0-9]{1,18})")


def check_disputes(books: Books) -> None:
    """Check every dispute's papers, instants and verdict."""
    rows = books.db.execute(
        "select dispute.*, content_hash, policy_hash, closed_us, release_due_us "
        "from dispute left join closing using (voucher_id) order by id"
    ).fetchall()
    terms = {content_hash: terms for _, content_hash, terms in books.policies}
    for row in rows:
        name = f"dispute {row['id']}"
        must(name, "is about a closed voucher", row["policy_hash"] in terms)
        answer_us = terms[row["policy_hash"]]["answer_us"]
        leaf, against_worker = check_claim(books, name, row)
        check_answer(books, name, row, against_worker)
        opened, answered = row["opened_us"], row["answered_us"]
        in_time = row["closed_us"] <= opened < row["release_due_us"]
        must(name, "was opened in time", in_time)
        same(name, "answer due", row["answer_due_us"], opened + answer_us)
        if answered is not None:
            in_time = opened <= answered < row["answer_due_us"]
            must(name, "was answered in time", in_time)
        found = (row["state"], row["verdict"])
        allowed = allowed_verdicts(row, leaf, answer_us, against_worker)
        reversed_by = REVERSED.fullmatch(row["verdict"])
        if not reversed_by or row["state"] != "dismissed":
            must(name, "state and verdict may be so", found in allowed)
        lost = row["state"] == "upheld" and against_worker
        books.disputes[row["voucher_id"]].append((row, lost))
        books.counts["disputes"] += 1
    for row in rows:
        reversed_by = REVERSED.fullmatch(row["verdict"])
        if reversed_by:
            lost = [
                (
                    "audit" if other in books.convictions else "dispute",
                    other["id"],
                    other["decided_us"],
                )
                for other, is_lost in books.disputes[row["voucher_id"]]
                if is_lost
            ]
            decisive = (reversed_by[1], int(reversed_by[2]), row["decided_us"])
            must(f"dispute {row['id']}", "ended with it", decisive in lost)


def check_claim(books: Books, name, row):
    """Check the opener's paper; return its leaf and whether it accuses the worker."""
    raw, voucher = row["claim"], books.vouchers[row["voucher_id"]]
    fields = unpack(name, CLAIM, raw, b"PMDC")
    network, closed_by, reason, _, leaf, opener, half, length = fields
    opened = raw[CLAIM.size :]
    signed(name, opener, b"dispute-claim", raw, row["claim_signature"])
    same(name, "network", network, books.ids.network)
    same(name, "voucher", closed_by, row["content_hash"])
    must(name, "reason", reason in {1, 2})
    against_worker = reason == 1
    sides = [voucher["backbone"], voucher["worker"]]
    wanted = sides if against_worker else sides[::-1]
    same(name, "parties", [row["opener"], row["respondent"]], wanted)
    same(name, "opener", opener, row["opener"])
    text = "wrong_results" if against_worker else "unknown_rows"
    same(name, "reason's name", row["reason"], text)
    fields = LEAF.unpack(leaf)
    same(name, "serving", row["serving"], fields[2])
    if row["voucher_id"] not in books.gone:
        same(name, "leaf", leaf, books.leaves.get((row["voucher_id"], fields[2])))
    same(name, "opened half and its length", (half, length), (reason % 2, len(opened)))
    wanted = fields[8] if against_worker else fields[9]
    same(name, "opened bytes", sha256(opened).digest()[:16], wanted)
    return fields, against_worker


def check_answer(books: Books, name, row, against_worker) -> None:
    """Check the respondent's paper, where there is one."""
    parts = [row["answer"], row["answer_signature"], row["answered_us"]]
    if None in parts:
        same(name, "answer", parts, [None, None, None])
        return
    raw, leaf = row["answer"], LEAF.unpack(row["claim"][78:157])
    fields = unpack(name, ANSWER, raw, b"PMDA")
    network, claim, _, respondent, half, length = fields
    opened = raw[ANSWER.size :]
    signed(name, respondent, b"dispute-answer", raw, row["answer_signature"])
    same(name, "answer's network", network, books.ids.network)
    same(name, "answer is to", claim, sha256(row["claim"]).digest())
    same(name, "answer is by", respondent, row["respondent"])
    other_half = 0 if against_worker else 1
    same(name, "answered half", (half, length), (other_half, len(opened)))
    wanted = leaf[9] if against_worker else leaf[8]
    same(name, "answered bytes", sha256(opened).digest()[:16], wanted)


def allowed_verdicts(row, leaf, answer_us, against_worker):
    """Return the (state, verdict) pairs that papers and clock allow."""
    answered, decided = row["answered_us"], row["decided_us"]
    if decided is None:
        if answered is None:
            return [("open", "")]
        return [("answered", "")] if against_worker else []
    allowed = []
    if answered is None and decided >= row["answer_due_us"]:
        allowed.append(("upheld", "no answer in time"))
    if answered is not None and against_worker and decided >= answered + answer_us:
        allowed.append(("dismissed", "no referee in time"))
    if answered == decided and not against_worker:
        allowed.append(("dismissed", "the rows were opened"))
    recomputed = RECOMPUTED.fullmatch(row["verdict"])
    if recomputed and against_worker and decided >= (answered or row["opened_us"]):
        is_right = recomputed[1] == leaf[9].hex()
        allowed.append(("dismissed" if is_right else "upheld", row["verdict"]))
    return allowed


def check_equivocations(books: Books) -> None:
    """Check every proof that somebody signed two vouchers of one number."""
    for row in books.db.execute("select * from equivocation"):
        name = f"equivocation {shown(row['digest'])}"
        raws = [row["first_raw"], row["second_raw"]]
        must(name, "are two, in order", raws[0] < raws[1])
        pair = [parse_voucher(name, raw) for raw in raws]
        keys = ("network", "worker", "backbone", "tab", "epoch", "number")
        one, other = ([voucher[key] for key in keys] for voucher in pair)
        same(name, "key and number", one, other)
        stored = [row[key] for key in ("worker", "backbone", "tab")]
        stored += [row["price_epoch"], row["number"]]
        same(name, "columns", [books.ids.network, *stored], one)
        signer = row["signer"]
        must(name, "signer is a party", signer in stored[:2])
        for raw, which in zip(raws, ("first", "second"), strict=True):
            signed(name, signer, b"voucher", raw, row[f"{which}_signature"])
        bodies = pair[0]["hash"] + pair[1]["hash"]
        digest = sha256(b"p2pmoe/equivocation/v1\0" + signer + bodies).digest()
        same(name, "digest", row["digest"], digest)
        if signer == row["worker"]:
            books.cheats[signer].append(row["seen_us"])
        books.counts["equivocations"] += 1


def check_closings(books: Books) -> None:
    """Check what became of every closed voucher, in the order of the log."""
    accounts = accounts_of(books)
    last_us = 0
    rows = books.db.execute("select * from closing order by log_index").fetchall()
    for index, row in enumerate(rows):
        voucher = books.vouchers[row["voucher_id"]]
        name = f"closing of {voucher['name']}"
        same(name, "place in the log", row["log_index"], index)
        same(name, "voucher", row["content_hash"], voucher["hash"])
        pending = (voucher["worker"], "worker_pending")
        same(name, "account", accounts.get(row["worker_account"]), pending)
        in_order = row["closed_us"] >= max(last_us, voucher["posted_us"])
        must(name, "time goes on", in_order)
        last_us = row["closed_us"]
        check_split(books, name, row, voucher)
        check_outcome(books, name, row, voucher)
        check_holdback(books, name, row, voucher)
        books.closings.append(row)
        books.counts["closings"] += 1
    closed = {row["voucher_id"] for row in rows}
    for voucher_id, voucher in books.vouchers.items():
        is_new = books.policies and voucher["posted_us"] >= books.policies[0][0]
        if voucher["final"] and is_new:
            must(voucher["name"], "final and closed", voucher_id in closed)
    for voucher_id, pruned_us in books.gone.items():
        check_pruned(books, voucher_id, pruned_us)


def check_split(books: Books, name, row, voucher) -> None:
    """Check fee, holdback and rest against the terms that held, and the log's entry."""
    known = {content_hash: terms for _, content_hash, terms in books.policies}
    must(name, "policy is known", row["policy_hash"] in known)
    terms = known[row["policy_hash"]]
    later = [since for since, _, _ in books.policies if since > terms["since"]]
    held = terms["since"] <= row["closed_us"] <= min(later, default=row["closed_us"])
    must(name, "policy held then", held)
    amount = voucher["amount"]
    fee = amount * terms["fee_ppm"] // 10**6
    back = (amount - fee) * terms["holdback_ppm"] // 10**6
    stored = [row[f"{part}_uc"] for part in ("amount", "fee", "held", "net")]
    rest = amount - fee - back
    same(name, "amount, fee, holdback, rest", stored, [amount, fee, back, rest])
    due = [row[f"{part}_due_us"] - row["closed_us"] for part in ("release", "holdback")]
    same(name, "windows", due, [terms["dispute_us"], terms["holdback_us"]])
    pending, code = (voucher["worker"], "worker_pending"), row["content_hash"]
    books.expect("fee", code, (pending, FEE), fee, code, row["closed_us"])
    held = (voucher["worker"], "worker_held")
    books.expect("hold", code, (pending, held), back, code, row["closed_us"])
    entry = b"".join(
        (
            b"PMLE\1",
            len(voucher["raw"]).to_bytes(2),
            voucher["raw"],
            voucher["worker_signature"],
            voucher["backbone_signature"],
            row["policy_hash"],
        )
    )
    same(name, "entry", row["entry_hash"], sha256(b"\0" + entry).digest())
    books.entries.append(entry)


def check_outcome(books: Books, name, row, voucher) -> None:
    """Check where the rest of a closed voucher stands."""
    disputes = books.disputes[row["voucher_id"]]
    pending_now = any(each["decided_us"] is None for each, _ in disputes)
    lost_us = [each["decided_us"] for each, is_lost in disputes if is_lost]
    state, at_us, code = row["state"], row["released_us"], row["content_hash"]
    same(name, "is disputed", state == "disputed", pending_now)
    same(name, "is reversed", state == "reversed", bool(lost_us))
    pending = (voucher["worker"], "worker_pending")
    if state == "released":
        must(name, "its window was over", at_us >= row["release_due_us"])
        sides = (pending, (voucher["worker"], "worker_available"))
        books.expect("settle", code, sides, row["net_uc"], code, at_us)
    elif state == "reversed":
        same(name, "reversed at", [at_us], lost_us)
        sides = (pending, (voucher["backbone"], "client_deposit"))
        books.expect("reverse", code, sides, row["net_uc"], code, at_us)
    else:
        must(name, "state", state in {"closed", "disputed"})
        same(name, "released", at_us, None)


def check_holdback(books: Books, name, row, voucher) -> None:
    """Check where the holdback stands; who cheated must have lost it."""
    state, at_us, code = row["holdback"], row["holdback_us"], row["content_hash"]
    disputes = books.disputes[row["voucher_id"]]
    lost_us = [each["decided_us"] for each, is_lost in disputes if is_lost]
    lost_us += books.cheats[voucher["worker"]]
    same(name, "has a holdback", state != "none", row["held_uc"] > 0)
    held = (voucher["worker"], "worker_held")
    if state == "released":
        must(name, "its time was over", at_us >= row["holdback_due_us"])
        sides = (held, (voucher["worker"], "worker_available"))
        books.expect("unhold", code, sides, row["held_uc"], code, at_us)
    elif state == "forfeited":
        must(name, "forfeited for a reason", at_us in lost_us)
        books.expect("forfeit", code, (held, PENALTY), row["held_uc"], code, at_us)
    else:
        must(name, "holdback's state", state in {"none", "held"})
        same(name, "holdback's end", at_us, None)
    if state in {"held", "released"}:
        end_us = float("inf") if at_us is None else at_us
        kept = [us for us in lost_us if row["closed_us"] < us < end_us]
        must(name, "no cheat kept it", not kept)


def check_pruned(books: Books, voucher_id, pruned_us) -> None:
    """Check that leaves were pruned only when the policy no longer kept them."""
    name = f"pruned leaves of {books.vouchers[voucher_id]['name']}"
    terms = {content_hash: terms for _, content_hash, terms in books.policies}
    rows = [row for row in books.closings if row["voucher_id"] == voucher_id]
    same(name, "voucher was closed", len(rows), 1)
    must(name, "was over", rows[0]["state"] in {"released", "reversed"})
    kept_us = rows[0]["closed_us"] + terms[rows[0]["policy_hash"]]["retention_us"]
    must(name, "time was over", pruned_us > kept_us)


def check_one_sided(books: Books) -> None:
    """Check finals that only their backbone signed, and what became of them."""
    keys = ("worker", "backbone", "tab", "epoch")
    closed = {
        tuple(books.vouchers[row["voucher_id"]][key] for key in keys): row
        for row in books.closings
    }
    for row in books.db.execute("select * from one_sided"):
        name = f"one-sided voucher {shown(row['content_hash'])}"
        voucher = parse_voucher(name, row["raw"])
        signed(
            name, voucher["backbone"], b"voucher", row["raw"], row["backbone_signature"]
        )
        same(name, "network", voucher["network"], books.ids.network)
        same(name, "final", voucher["final"], 1)
        key = [voucher[part] for part in keys]
        stored = [row["worker"], row["backbone"], row["tab"], row["price_epoch"]]
        same(name, "key", stored, key)
        stored = [row["content_hash"], row["number"], row["amount_uc"]]
        wanted = [voucher["hash"], voucher["number"], voucher["amount"]]
        same(name, "columns", stored, wanted)
        closing = closed.get(tuple(key))
        if row["state"] == "held":
            must(name, "key is still open", closing is None)
        else:
            is_signed = closing and closing["content_hash"] == voucher["hash"]
            same(name, "state", row["state"], "signed" if is_signed else "expired")
            same(name, "leaves", row["leaves"], b"")
        books.counts["one_sided"] += 1


# -- standby pay ---------------------------------------------------------------

WEEK_US, MINUTE_US = 7 * 86_400_000_000, 60_000_000
STANDBY_ROWS = {
    "price_epoch": "select count(*) from price_epoch",
    "price_row": "select count(*) from price_row",
    "holding": "select count(*) from holding",
    "standby_pay": "select count(*) from standby_pay",
}


def check_standby(books: Books) -> None:
    """Check every paper that paid for replicas: signature, turn, amounts, who."""
    query = (
        "select worker, min(filing.posted_us) from voucher join filing "
        "on filing.voucher_id = voucher.id group by worker"
    )
    rows = books.db.execute("select * from standby_paper order by seq").fetchall()
    first_us = dict(books.db.execute(query)) if rows else {}
    last_us, spans = 0, defaultdict(list)
    totals = defaultdict(int)
    for number, row in enumerate(rows, start=1):
        name, raw = f"standby paper {shown(row['hash'])}", row["raw"]
        same(name, "place", row["seq"], number)
        signed(name, books.ids.market, b"standby", raw, row["signature"])
        same(name, "hash", row["hash"], sha256(raw).digest())
        must(name, "time goes on", row["booked_us"] >= last_us)
        last_us = row["booked_us"]
        paper = parse_standby(books, name, raw)
        check_turn(books, name, row, paper)
        for before in spans[paper["manifest"]]:
            apart = paper["from"] >= before[2] or paper["to"] <= before[1]
            must(name, "no other has its time", apart and before[0] != paper["epoch"])
        spans[paper["manifest"]].append((paper["epoch"], paper["from"], paper["to"]))
        check_replicas(books, name, row, paper, totals)
        check_pay(books, name, row, paper, first_us, totals)
        books.counts["standby_papers"] += 1
    for table, query in STANDBY_ROWS.items():
        (n_rows,) = books.db.execute(query).fetchone()
        same(f"table {table}", "rows", n_rows, totals[table])


def parse_standby(books: Books, name, raw):
    """Return a paper's fields by name; shares may not pass domain and coverage."""
    names = "network manifest epoch from to prices pot n_experts n_holdings"
    fields = unpack(name, STANDBY, raw, b"PMSB")
    paper = dict(zip(names.split(), fields, strict=True))
    same(name, "network", paper["network"], books.ids.network)
    middle = STANDBY.size + paper["n_experts"] * SCARCITY.size
    length = middle + paper["n_holdings"] * HOLDING.size
    same(name, "length", len(raw), length)
    scarcity = list(SCARCITY.iter_unpack(raw[STANDBY.size : middle]))
    holdings = list(HOLDING.iter_unpack(raw[middle:]))
    for what, keys in (
        ("experts", [row[0] for row in scarcity]),
        ("holdings", [row[:2] for row in holdings]),
    ):
        same(name, f"order of {what}", keys, sorted(set(keys)))
    must(name, "pot is an amount", 0 <= paper["pot"] <= MAX_VOUCHER_UC)
    must(name, "multipliers", all(row[2] > 0 for row in scarcity))
    in_span = 10**6 <= paper["to"] - paper["from"] <= 86_400_000_000
    must(name, "an epoch has a length", paper["from"] >= 0 and in_span)
    coverage = {row[0]: row[4] for row in scarcity}
    parts, wholes = defaultdict(int), defaultdict(int)
    for expert, _, domain, share in holdings:
        must(name, "a share is one", 0 < share <= 1 << 16 and expert in coverage)
        parts[expert, domain] += share
        wholes[expert] += share
    must(name, "domains", all(share <= 1 << 16 for share in parts.values()))
    must(name, "coverage", all(wholes[each] <= coverage[each] for each in wholes))
    return paper | {"scarcity": scarcity, "holdings": holdings}


def check_turn(books: Books, name, row, paper) -> None:
    """Check that the epoch was over, and that the policy then allowed as much."""
    age_us = row["booked_us"] - paper["to"]
    must(name, "its epoch was over, not long ago", -MINUTE_US <= age_us <= WEEK_US)
    known = {content_hash: terms for _, content_hash, terms in books.policies}
    must(name, "policy is known", row["policy_hash"] in known)
    terms = known[row["policy_hash"]]
    later = [since for since, _, _ in books.policies if since > terms["since"]]
    held = terms["since"] <= row["booked_us"] <= min(later, default=row["booked_us"])
    must(name, "policy held then", held)
    must(name, "policy allows it", paper["pot"] <= terms["standby"])
    if paper["prices"] in books.prices:
        manifest = books.prices[paper["prices"]][0]
        same(name, "model of its prices", paper["manifest"], manifest)


def check_replicas(books: Books, name, row, paper, totals) -> None:
    """Check the rows of scarcity and of holdings; work out what each replica gets."""
    wanted = [
        (each[0] >> 16, each[0] & 0xFFFF, *each[1:]) for each in paper["scarcity"]
    ]
    query = (
        "select layer, expert, demand, multiplier, target, coverage from price_row "
        "where paper = ? order by layer, expert"
    )
    stored = [tuple(each) for each in books.db.execute(query, (row["seq"],))]
    same(name, "scarcity", stored, wanted)
    scarcity = {each[0]: each[2:] for each in paper["scarcity"]}
    weight = sum(m * target for _, _, m, target, _ in paper["scarcity"])
    wanted, paper["pay"] = [], defaultdict(lambda: [0, 0])
    for expert, worker, domain, share in paper["holdings"]:
        m, target, coverage = scarcity[expert]
        amount = 0
        if weight and coverage:
            above = paper["pot"] * m * share * min(target, coverage)
            amount = above // (coverage * weight)
        wanted.append((expert >> 16, expert & 0xFFFF, worker, domain, share, amount))
        total = paper["pay"][worker]
        total[:] = total[0] + 1, total[1] + amount
    query = (
        "select layer, expert, worker, domain, share, amount_uc from holding "
        "where paper = ? order by layer, expert, worker"
    )
    stored = [tuple(each) for each in books.db.execute(query, (row["seq"],))]
    same(name, "holdings", stored, wanted)
    totals["price_row"] += len(paper["scarcity"])
    totals["holding"] += len(wanted)


def check_pay(books: Books, name, row, paper, first_us, totals) -> None:
    """Check what each worker gets; only one that had a voucher filed is paid."""
    wanted = [
        (worker, *paper["pay"][worker])
        for worker in sorted(paper["pay"])
        if paper["pay"][worker][1]
    ]
    query = "select * from standby_pay where paper = ? order by worker"
    stored = books.db.execute(query, (row["seq"],)).fetchall()
    found = [(each["worker"], each["replicas"], each["amount_uc"]) for each in stored]
    same(name, "pay", found, wanted)
    paid = 0
    for each in stored:
        worker, amount, at_us = each["worker"], each["amount_uc"], row["booked_us"]
        since = first_us.get(worker)
        if each["state"] == "paid":
            must(name, "who is paid was known", since is not None and since <= at_us)
            sides = (POT, (worker, "worker_available"))
            key = row["hash"] + worker
            books.expect("standby", key, sides, amount, row["hash"], at_us)
            books.standby[row["seq"], worker] = (amount, at_us)
            paid += amount
        else:
            same(name, "state", each["state"], "unknown")
            must(name, "unpaid is unknown", since is None or since >= at_us)
    query = (
        "select manifest_hash, epoch, from_us, to_us, price_table_hash, pot_uc, "
        "paid_uc from price_epoch where paper = ?"
    )
    stored = [tuple(each) for each in books.db.execute(query, (row["seq"],))]
    names = ("manifest", "epoch", "from", "to", "prices", "pot")
    same(name, "epoch", stored, [(*(paper[each] for each in names), paid)])
    totals["price_epoch"] += 1
    totals["standby_pay"] += len(wanted)


# -- beacons and audits --------------------------------------------------------

AUDIT_STATES = ("open", "passed", "failed", "unopened", "unjudged", "unasked")
MAX_PASSES = 2000  # more are not counted


def check_beacons(books: Books) -> None:
    """Check every draw: the ledger's signature, what it chose, what came of it."""
    heads = dict(books.db.execute("select size, root from checkpoint").fetchall())
    columns = "select rowid, * from audit order by id"
    audits = defaultdict(list)
    for row in books.db.execute(columns):
        audits[row["content_hash"]].append(row)
    passed = history(books, "passed")
    failed = history(books, "failed")
    value, upto_us, n_audits = bytes(32), None, 0
    rows = books.db.execute("select * from beacon order by number").fetchall()
    for number, row in enumerate(rows, start=1):
        name = f"beacon {number}"
        same(name, "number", row["number"], number)
        same(name, "previous", row["previous"], value)
        begin = row["upto_us"] if upto_us is None else upto_us
        same(name, "begin", row["from_us"], begin)
        must(name, "goes on", row["from_us"] <= row["upto_us"])
        is_without = (row["log_size"], row["log_root"]) == (0, bytes(32))
        head = bytes(32) if is_without else heads.get(row["log_size"])
        same(name, "root of the log", row["log_root"], head)
        parts = (row["previous"], row["log_size"], row["log_root"])
        raw = BEACON.pack(b"PMBE", 1, books.ids.network, number, *parts)
        signed(name, books.ids.ledger, b"beacon", raw, row["signature"])
        value, upto_us = sha256(row["signature"]).digest(), row["upto_us"]
        filings = books.db.execute(
            "select * from filing where posted_us >= ? and posted_us < ? "
            "and leaves > 0 order by posted_us, content_hash",
            (row["from_us"], upto_us),
        ).fetchall()
        for filed in filings:
            worker = books.vouchers[filed["voucher_id"]]["worker"]
            passes = passes_before(passed[worker], failed[worker], upto_us)
            seed = sha256(value + filed["content_hash"]).digest()
            found = audits.pop(filed["content_hash"], [])
            check_draw(books, filed, drawn_rows(seed, filed["rows"], passes), found)
            for audit in found:
                n_audits += 1
                same(f"audit {audit['id']}", "number", audit["id"], n_audits)
                check_audit(books, audit, row)
        books.counts["beacons"] += 1
    must("audits", "each was drawn", not audits)


def history(books: Books, state):
    """Return when each worker's audits came to this, in order."""
    found = defaultdict(list)
    query = "select worker, decided_us from audit where state = ? order by decided_us"
    for worker, decided_us in books.db.execute(query, (state,)):
        found[worker].append(decided_us)
    return found


def passes_before(passed, failed, upto_us):
    """Return how many audits were passed before an instant, since the last failed."""
    since_us = max((at_us for at_us in failed if at_us < upto_us), default=0)
    return min(MAX_PASSES, sum(since_us < at_us < upto_us for at_us in passed))


def drawn_rows(seed, n_rows, passes):
    """Return which rows of a filing are drawn: one of so many in a row."""
    one_in = 20 if passes < 200 else 100 if passes < 2000 else 500
    one_in = max(one_in, -(-n_rows // 64))

    def number(at):
        return int.from_bytes(sha256(seed + at.to_bytes(4)).digest()[:8])

    n_parts = -(-n_rows // one_in)
    rows = [at * one_in + number(at) % one_in for at in range(n_parts)]
    rows = [row for row in rows if row < n_rows]
    if not rows and passes < 200:
        rows = [number(n_parts) % n_rows]
    return rows


def check_draw(books: Books, filed, rows, found) -> None:
    """Check that just the leaves that computed the drawn rows are audited."""
    name = f"audits of voucher {shown(filed['content_hash'])}"
    state = books.files.get(filed["leaf_file"])
    places = [audit["place"] for audit in found]
    if state is not None and state["state"] == "pruned":
        must(name, "as many as can be", len(places) <= len(rows))
        return
    length = filed["leaves"] * LEAF.size
    block = read_leaves(books.folder, filed["leaf_file"], filed["leaf_offset"], length)
    leaves = [block[at : at + LEAF.size] for at in range(0, length, LEAF.size)]
    owners = [
        place for place, leaf in enumerate(leaves) for _ in range(LEAF.unpack(leaf)[6])
    ]
    same(name, "places", places, sorted({owners[row] for row in rows}))
    for audit in found:
        same(f"audit {audit['id']}", "leaf", audit["leaf"], leaves[audit["place"]])


def check_audit(books: Books, audit, beacon) -> None:
    """Check what came of one audit, and note what it takes."""
    name, at_us = f"audit {audit['id']}", audit["decided_us"]
    voucher = books.vouchers[audit["voucher_id"]]
    stored = [audit[key] for key in ("beacon", "posted_us", "worker", "backbone")]
    wanted = [beacon["number"], beacon["upto_us"]]
    wanted += [voucher["worker"], voucher["backbone"]]
    same(name, "beacon, time, worker, backbone", stored, wanted)
    of_voucher = "select voucher_id from filing where content_hash = ?"
    (voucher_id,) = books.db.execute(of_voucher, (audit["content_hash"],)).fetchone()
    same(name, "voucher", audit["voucher_id"], voucher_id)
    leaf = LEAF.unpack(audit["leaf"])
    same(name, "tab", leaf[1], voucher["tab"])
    must(name, "state", audit["state"] in AUDIT_STATES)
    same(name, "decided", at_us is None, audit["state"] == "open")
    must(name, "not before it was drawn", at_us is None or at_us >= beacon["upto_us"])
    words = [audit["words"][at : at + 48] for at in range(0, len(audit["words"]), 48)]
    same(name, "words", [len(word) for word in words], [48] * len(words))
    referees = {word[:32] for word in words}
    others = len(referees) == len(words) and voucher["worker"] not in referees
    must(name, "referees are others, each once", others)
    outcomes = [weigh([w[32:] for w in words[:n]], leaf[9]) for n in range(4)]
    decided = outcomes[len(words)] if len(words) < 4 else "too many"
    if audit["state"] in {"passed", "failed"}:
        same(name, "outcome", audit["state"], decided)
        before = outcomes[len(words) - 1]
        same(name, "outcome before the last word", before, "none")
    else:
        same(name, "outcome", decided, "none")
        may_speak = audit["state"] == "unjudged"
        must(name, "nobody was asked", may_speak or not words)
    is_failed = audit["state"] == "failed"
    same(name, "rows are kept", audit["opened"] is not None, is_failed)
    must(name, "reversed is a flag", audit["is_reversed"] in {0, int(is_failed)})
    if is_failed:
        same(name, "rows", sha256(audit["opened"]).digest()[:16], leaf[8])
        books.cheats[voucher["worker"]].append(at_us)
        books.convictions.append(audit)
        if audit["is_reversed"]:
            books.disputes[audit["voucher_id"]].append((audit, True))
    books.counts["audits"] += 1


def weigh(said, given):
    """Return what referees' words come to."""
    if given in said:
        return "passed"
    return "failed" if len(set(said)) < len(said) else "none"


def check_convictions(books: Books) -> None:
    """Check that a conviction took back what was still there."""
    closings = {row["voucher_id"]: row for row in books.closings}
    for audit in books.convictions:
        name, closing = f"audit {audit['id']}", closings.get(audit["voucher_id"])
        must(name, "closed its voucher", closing is not None)
        must(name, "in time", closing["closed_us"] <= audit["decided_us"])
        if not audit["is_reversed"]:
            ended_us = closing["released_us"]
            over = ended_us is not None and ended_us <= audit["decided_us"]
            must(name, "nothing was left to take back", over)


# -- the log -------------------------------------------------------------------


def read_file(path: Path):
    """Return a file's bytes, None if it is not there."""
    return path.read_bytes() if path.exists() else None


def tree_root(hashes):
    """Return the RFC 6962 root over leaf hashes."""
    level = list(hashes)
    if not level:
        return sha256(b"").digest()
    while len(level) > 1:
        above = [
            sha256(b"\1" + left + right).digest()
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = above + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def note_lines(name, note):
    """Return a signed note's text and its (name, key id, signature) lines."""
    try:
        text, _, lines = note.decode().rpartition("\n\n")
        found = []
        for line in lines.splitlines():
            dash, signer, packed = line.split(" ")
            raw = base64.b64decode(packed, validate=True)
            same(name, "signature line", (dash, len(raw) > 4), ("\u2014", True))
            found.append((signer, raw[:4], raw[4:]))
    except ValueError as exc:
        raise Difference(f"{name}: no signed note") from exc
    return f"{text}\n", found


def key_number(signer, kind, key):
    """Return the 4 bytes by which a note's line names a key."""
    return sha256(signer.encode() + b"\n" + bytes([kind]) + key).digest()[:4]


def read_head(books: Books, name, note):
    """Return (size, root) of a checkpoint that the ledger signed."""
    text, lines = note_lines(name, note)
    origin = f"p2pmoe.ledger/{books.ids.network.hex()}"
    number = key_number(origin, 1, books.ids.ledger)
    own = [line[2] for line in lines if line[:2] == (origin, number)]
    same(name, "is signed by the ledger", len(own), 1)
    try:
        public_key(books.ids.ledger).verify(own[0], text.encode())
        _, size, root, _ = text.split("\n")
        root = base64.b64decode(root, validate=True)
    except (InvalidSignature, ValueError):
        raise Difference(f"{name}: wrong signature, or no checkpoint") from None
    again = f"{origin}\n{int(size)}\n{base64.b64encode(root).decode()}\n"
    same(name, "text", text, again)
    return int(size), root


def check_log(books: Books, shown_note, kept) -> None:
    """Check every checkpoint, cosignature, tile and entry against the closings."""
    hashes = [sha256(b"\0" + entry).digest() for entry in books.entries]
    heads, texts = [], {}
    for row in books.db.execute("select * from checkpoint order by size"):
        name = f"checkpoint of {row['size']}"
        head = read_head(books, name, row["note"])
        same(name, "size and root", (row["size"], row["root"]), head)
        heads.append(head)
        texts[row["size"]] = note_lines(name, row["note"])[0]
        books.counts["checkpoints"] += 1
    heads_of_others = [read_head(books, "kept checkpoint", note) for note in kept]
    check_roots(heads + heads_of_others, hashes)
    for row in books.db.execute("select * from cosignature"):
        check_cosignature(row, texts)
        books.counts["cosignatures"] += 1
    if shown_note is None:
        must("log", "what it signed is shown", len(heads) < 2)
        return
    size, root = read_head(books, "shown checkpoint", shown_note)
    must("shown checkpoint", "it was signed", (size, root) in heads)
    query = "select min(posted_us) from checkpoint where size > ?"
    (missing_us,) = books.db.execute(query, (size,)).fetchone()
    if missing_us is not None:  # a crash or a backup leaves the log a little behind
        query = "select max(posted_us) from transfer"
        (last_us,) = books.db.execute(query).fetchone()
        recent = missing_us > last_us - 3_600_000_000
        must("shown checkpoint", "it is one of the newest", recent)
    check_tiles(books, hashes[:size])
    books.counts["log_entries"] = size


def check_roots(heads, hashes) -> None:
    """Check that each head is the root of the first so many entries."""
    peaks, size = [], 0  # of complete subtrees: (number of entries, hash)
    for head_size, head_root in sorted(heads):
        name = f"checkpoint of {head_size}"
        must(name, "it is not larger than the log", head_size <= len(hashes))
        for leaf in hashes[size:head_size]:
            peaks.append((1, leaf))
            while len(peaks) > 1 and peaks[-2][0] == peaks[-1][0]:
                (_, left), (n_entries, right) = peaks[-2:]
                joined = sha256(b"\1" + left + right).digest()
                peaks[-2:] = [(2 * n_entries, joined)]
        size = head_size
        root = peaks[-1][1] if peaks else sha256(b"").digest()
        for _, left in reversed(peaks[:-1]):
            root = sha256(b"\1" + left + root).digest()
        same(name, "root", head_root, root)


def check_cosignature(row, texts) -> None:
    """Check a witness's line on a checkpoint."""
    name = f"cosignature of {shown(row['witness'])} on {row['size']}"
    must(name, "checkpoint is there", row["size"] in texts)
    text = texts[row["size"]]
    _, lines = note_lines(name, f"{text}\n{row['line']}\n".encode())
    signer, number, raw = lines[0]
    same(name, "key", number, key_number(signer, 4, row["witness"]))
    time_s = int.from_bytes(raw[:8])
    message = f"cosignature/v1\ntime {time_s}\n{text}".encode()
    try:
        public_key(row["witness"]).verify(raw[8:], message)
    except (InvalidSignature, ValueError):
        raise Difference(f"{name}: the signature is wrong") from None


def check_tiles(books: Books, hashes) -> None:
    """Compare every tile and every bundle of entries with what it must hold."""
    level, height = hashes, 0
    while level:
        for at in range(0, len(level), 256):
            held = level[at : at + 256]
            check_tile(books, f"tile/{height}", at // 256, len(held), b"".join(held))
            if height == 0:
                entries = books.entries[at : at + len(held)]
                raw = b"".join(len(entry).to_bytes(2) + entry for entry in entries)
                check_tile(books, "tile/entries", at // 256, len(held), raw)
        full = len(level) // 256 * 256
        level = [tree_root(level[at : at + 256]) for at in range(0, full, 256)]
        height += 1


def check_tile(books: Books, kind, index, width, wanted) -> None:
    """Compare one file of the log; a full tile may stand for the partial one."""
    digits = f"{index:03d}"
    digits = digits.zfill(-(-len(digits) // 3) * 3)
    groups = [digits[at : at + 3] for at in range(0, len(digits), 3)]
    name = "/".join([kind, *(f"x{group}" for group in groups[:-1]), groups[-1]])
    raw = read_file(books.folder / "log" / name)
    if width < 256 and raw is not None:
        raw = raw[: len(wanted)]  # it has grown into a full one
    elif width < 256:
        name += f".p/{width}"
        raw = read_file(books.folder / "log" / name)
    must(name, "is there", raw is not None)
    same(name, "content", raw, wanted)


# -- transfers and balances ----------------------------------------------------


def check_transfers(books: Books) -> None:
    """Check that every transfer is one that must be, and that none is missing."""
    accounts = accounts_of(books)
    balances, last_us = defaultdict(int), 0
    rows = books.db.execute("select * from transfer order by seq")
    for seq, row in enumerate(rows, start=1):
        name = f"transfer {row['id'].hex()}"
        same(name, "place", row["seq"], seq)
        debit, credit = accounts.get(row["debit_id"]), accounts.get(row["credit_id"])
        found = (row["code"], debit, credit, row["amount_uc"], row["reference"])
        due = books.due.pop(row["id"], None)
        if due is None and row["code"] == "fund" and credit is not None:
            due = funding(row, credit[0])
        elif due is None and row["code"] in POT_SOURCES:
            due = filling(row)
        if due is None:
            raise Difference(f"{name}: nothing signed explains {row['code']}")
        same(name, "body", found, due[:5])
        same(name, "time", row["posted_us"], due[5] or row["posted_us"])
        must(name, "time goes on", row["posted_us"] >= last_us)
        must(name, "moves something", row["amount_uc"] > 0)
        last_us = row["posted_us"]
        balances[debit] -= row["amount_uc"]
        balances[credit] += row["amount_uc"]
        must(name, "is covered", balances[debit] >= 0 or debit == WORLD)
        books.counts["transfers"] += 1
    for ident, due in books.due.items():
        raise Difference(f"transfer {ident.hex()}: {due[0]} of {due[3]} is missing")


def accounts_of(books: Books):
    """Return owner and kind of every account, by number."""
    rows = books.db.execute("select * from account")
    return {row["id"]: (row["owner"], row["kind"]) for row in rows}


def funding(row, client):
    """Return what a credit by the operator must be: named by its client and note."""
    if row["id"] != transfer_id("fund", client + row["reference"]):
        return None
    deposit = (client, "client_deposit")
    return ("fund", WORLD, deposit, row["amount_uc"], row["reference"], None)


POT_SOURCES = {"endow": WORLD, "allot": FEE}


def filling(row):
    """Return what the operator put into the standby pot must be: named by its note."""
    code = row["code"]
    if row["id"] != transfer_id(code, row["reference"]):
        return None
    source = POT_SOURCES[code]
    return (code, source, POT, row["amount_uc"], row["reference"], None)


def check_balances(books: Books) -> None:
    """Recompute both sides of every account from the transfers."""
    out, into = defaultdict(int), defaultdict(int)
    for row in books.db.execute("select debit_id, credit_id, amount_uc from transfer"):
        out[row["debit_id"]] += row["amount_uc"]
        into[row["credit_id"]] += row["amount_uc"]
    for row in books.db.execute("select * from account"):
        name = f"account {row['kind']} of {shown(row['owner'])}"
        same(name, "debits", row["debits_uc"], out.pop(row["id"], 0))
        same(name, "credits", row["credits_uc"], into.pop(row["id"], 0))
        books.counts["accounts"] += 1


# -- periods -------------------------------------------------------------------

WORKER_KINDS = ("worker_pending", "worker_held", "worker_available", "payout_clearing")
MOVES = "earn fee hold settle reverse unhold forfeit pay paid unpay round".split()
FROM_OUTSIDE = {"earn", "standby"}


def check_periods(books: Books) -> None:
    """Check what every closed period says of transfers, log and statements."""
    end_us = 0
    for row in books.db.execute("select * from period order by start_us"):
        name, start, end = f"period {row['name']}", row["start_us"], row["end_us"]
        must(name, "it comes after the one before", start >= end_us)
        query = "select count(*) from transfer where posted_us >= ? and posted_us < ?"
        (n_between,) = books.db.execute(query, (end_us, start)).fetchone()
        same(name, "transfers between it and the one before", n_between, 0)
        must(name, "it was over", row["closed_us"] >= end > start)
        same(name, "borders", (start, end), borders(name, row["name"]))
        query = "select max(seq) from transfer where posted_us < ?"
        (last,) = books.db.execute(query, (end,)).fetchone()
        same(name, "last transfer", row["last_seq"], last or 0)
        closed = [each for each in books.closings if each["closed_us"] < end]
        same(name, "size of the log", row["log_size"], len(closed))
        log_root = tree_root([each["entry_hash"] for each in closed])
        same(name, "root of the log", row["log_root"], log_root)
        query = "select count(*) from filing where posted_us >= ? and posted_us < ?"
        late = f"{query} and issued_us < ?"
        (n_late,) = books.db.execute(late, (start, end, start)).fetchone()
        same(name, "has a note on late vouchers", row["late"] != "", n_late > 0)
        root = statement_root(books, start, end)
        same(name, "root of the statements", row["statement_root"], root)
        end_us = end
        books.counts["periods"] += 1


def borders(name, text):
    """Return the borders, in microseconds, of a year, month, day or span of days."""
    first, dots, last = text.partition("..")
    try:
        start, end = span(first)
        return (start, span(last)[0] if dots else end)
    except ValueError as exc:
        raise Difference(f"{name}: no period") from exc


def span(text):
    """Return the borders of 2026, 2026-11 or 2026-11-30."""
    if not re.fullmatch(r"\d{4}(-\d\d){0,2}", text):
        raise ValueError(text)
    parts = [int(part) for part in text.split("-")]
    day = datetime(*[*parts, 1, 1][:3], tzinfo=UTC)
    if len(parts) == 3:
        following = day + timedelta(days=1)
    elif len(parts) == 2:
        following = (day + timedelta(days=31)).replace(day=1)
    else:
        following = day.replace(year=day.year + 1)
    return tuple(int(each.timestamp()) * 10**6 for each in (day, following))


def statement_root(books: Books, start, end):
    """Return the root over all workers' statements of a period."""
    owners = {}
    for row in books.db.execute("select * from account where opened_us < ?", (end,)):
        if row["kind"] in WORKER_KINDS:
            owners[row["id"]] = (row["owner"], row["kind"])
    sums = defaultdict(lambda: defaultdict(int))
    for owner, _ in owners.values():
        sums[owner]["is there"] = 1
    for row in books.db.execute("select * from transfer where posted_us < ?", (end,)):
        for sign, side in ((-1, "debit_id"), (1, "credit_id")):
            if row[side] not in owners:
                continue
            owner, kind = owners[row[side]]
            sums[owner]["closing", kind] += sign * row["amount_uc"]
            if row["posted_us"] < start:
                sums[owner]["opening", kind] += sign * row["amount_uc"]
            elif (sign > 0) == (row["code"] in FROM_OUTSIDE):
                sums[owner][row["code"]] += row["amount_uc"]
    leaves = []
    for owner in sorted(sums):
        of = sums[owner]
        numbers = [of["opening", kind] for kind in WORKER_KINDS]
        has_standby = of["standby"] > 0
        numbers += [of[code] for code in MOVES + ["standby"] * has_standby]
        numbers += [of["closing", kind] for kind in WORKER_KINDS]
        layout = STATEMENT_2 if has_standby else STATEMENT
        raw = layout.pack(b"PMST", 1 + has_standby, owner, start, end, *numbers)
        leaves.append(sha256(b"\0" + raw).digest())
    return tree_root(leaves)


# -- payouts -------------------------------------------------------------------

STEPS = {
    "": {"prepared"},
    "prepared": {"sending", "void"},
    "sending": {"sent", "confirmed", "failed", "unresolved"},
    "sent": {"confirmed", "failed"},
    "unresolved": {"confirmed", "failed"},
}
DEAD = {"failed", "void"}


def check_payouts(books: Books) -> None:
    """Check every payout's id, amount, steps and transfers, then the parts."""
    payouts, attempts, accounts = {}, {}, accounts_of(books)
    rows = books.db.execute(
        "select payout.*, start_us, end_us, closed_us from payout left join period "
        "on period.id = period_id order by period_id, account_id, attempt"
    ).fetchall()
    for row in rows:
        name = f"payout {row['id'].hex()}"
        must(name, "period is closed", row["end_us"] is not None)
        worker, kind = accounts[row["account_id"]]
        same(name, "account", kind, "worker_available")
        span = row["start_us"].to_bytes(8) + row["end_us"].to_bytes(8)
        parts = books.ids.ledger + span + worker + row["attempt"].to_bytes(4)
        derived = sha256(b"p2pmoe/payout/v1\0" + parts).digest()[:16]
        same(name, "id", row["id"], derived)
        same(name, "idempotency key", row["idempotency_key"], derived.hex())
        n, d = (int(number) for number in row["rate"].split("/"))
        same(name, "credits", row["amount_uc"], -(-row["amount_minor"] * n // d))
        must(name, "comes later", row["prepared_us"] >= row["closed_us"])
        before = attempts.get((row["period_id"], row["account_id"]))
        same(name, "attempt", row["attempt"], before["attempt"] + 1 if before else 1)
        must(name, "only one pays", before is None or before["state"] in DEAD)
        attempts[row["period_id"], row["account_id"]] = row
        check_steps(books, name, row, worker)
        payouts[row["id"]] = (row, worker, -(-n // d))
        books.counts["payouts"] += 1
        books.counts["paid_uc"] += row["amount_uc"] * (row["state"] == "confirmed")
    check_parts(books, payouts)
    check_standby_parts(books, payouts)
    check_paid(books, payouts)


def check_steps(books: Books, name, row, worker) -> None:
    """Check a payout's events; they say which transfers must be there."""
    state, at_us = "", row["prepared_us"]
    statement = "select * from payout_event where payout_id = ? order by seq"
    for event in books.db.execute(statement, (row["id"],)):
        allowed = event["state"] in STEPS.get(state, set())
        must(name, f"step from {state!r} to {event['state']}", allowed)
        must(name, "time goes on", event["posted_us"] >= at_us)
        if not state:
            same(name, "prepared", event["posted_us"], at_us)
        state, at_us = event["state"], event["posted_us"]
    same(name, "state", (row["state"], row["changed_us"]), (state, at_us))
    available, clearing = (worker, "worker_available"), (worker, "payout_clearing")
    code, amount = row["id"], row["amount_uc"]
    books.expect("pay", code, (available, clearing), amount, code, row["prepared_us"])
    if state == "confirmed":
        books.expect("paid", code, (clearing, WORLD), amount, code, at_us)
    elif state in DEAD:
        books.expect("unpay", code, (clearing, available), amount, code, at_us)


def check_parts(books: Books, payouts) -> None:
    """Check that what is paid was released in time, and in one living payout only."""
    closed, taken = {row["voucher_id"]: row for row in books.closings}, {}
    for item in books.db.execute("select * from payout_item"):
        row, worker, _ = payouts[item["payout_id"]]
        closing = closed[item["voucher_id"]]
        voucher, part = books.vouchers[item["voucher_id"]], item["part"]
        name = f"payout {row['id'].hex()}, {part} of {voucher['name']}"
        same(name, "worker", voucher["worker"], worker)
        must(name, "part", part in {"net", "holdback"})
        columns = ("holdback", "holdback_us", "held_uc")
        if part == "net":
            columns = ("state", "released_us", "net_uc")
        state, at_us, amount = (closing[column] for column in columns)
        same(name, "state and amount", (state, amount), ("released", item["amount_uc"]))
        in_time = at_us < row["end_us"] and at_us <= row["prepared_us"]
        must(name, "was released in its period", in_time)
        if row["state"] not in DEAD:
            other = taken.setdefault((item["voucher_id"], part), row["id"])
            same(name, "is paid by", other, row["id"])


def check_standby_parts(books: Books, payouts) -> None:
    """Check that standby pay is paid out once, and was given in the period."""
    taken = {}
    for item in books.db.execute("select * from payout_standby"):
        row, worker, _ = payouts[item["payout_id"]]
        name = f"payout {row['id'].hex()}, standby pay of {item['paper']}"
        same(name, "worker", item["worker"], worker)
        amount, at_us = books.standby[item["paper"], worker]
        same(name, "amount", item["amount_uc"], amount)
        in_time = at_us < row["end_us"] and at_us <= row["prepared_us"]
        must(name, "was given in its period", in_time)
        if row["state"] not in DEAD:
            other = taken.setdefault((item["paper"], worker), row["id"])
            same(name, "is paid by", other, row["id"])


def check_paid(books: Books, payouts) -> None:
    """Check that no more is paid than was released before the periods' ends.

    Less than a minor unit may go from one payout to another: amounts are whole cents.
    """
    released = defaultdict(list)
    for row in books.closings:
        worker = books.vouchers[row["voucher_id"]]["worker"]
        if row["state"] == "released":
            released[worker].append((row["released_us"], row["net_uc"]))
        if row["holdback"] == "released":
            released[worker].append((row["holdback_us"], row["held_uc"]))
    for (_, worker), (amount, at_us) in books.standby.items():
        released[worker].append((at_us, amount))
    living = defaultdict(list)
    for row, worker, minor in payouts.values():
        if row["state"] not in DEAD:
            living[worker].append((row["end_us"], row["amount_uc"], minor))
    for worker, own in living.items():
        for end, _, _ in own:
            paid = sum(amount for at, amount, _ in own if at <= end)
            room = sum(minor for at, _, minor in own if at > end)
            limit = sum(amount for us, amount in released[worker] if us < end)
            name = f"payouts of {shown(worker)} until {end}"
            must(name, f"{paid} of {limit} released", paid <= limit + room)


# -- command line --------------------------------------------------------------


def key_id(text: str) -> bytes:
    """Read an id of 64 hex digits."""
    raw = bytes.fromhex(text)
    if len(raw) != 32:
        raise ValueError(f"{len(raw)} bytes")
    return raw


def main(arguments: list[str] | None = None) -> int:
    """Run the check and print what was found; return the exit code."""
    parser = argparse.ArgumentParser(description="Verify a ledger from its files.")
    parser.add_argument("folder", type=Path)
    for name in ("network", "ledger", "market"):
        parser.add_argument(f"--{name}", type=key_id, required=True, metavar="ID")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a checkpoint kept elsewhere, which the log must still contain",
    )
    given = parser.parse_args(arguments)
    ids = Ids(given.network, given.ledger, given.market)
    try:
        kept = tuple(path.read_bytes() for path in given.checkpoint)
        counts = verify(given.folder, ids, kept)
    except Difference as exc:
        print(f"DIFFERENCE: {printable(exc)}")
        return 1
    except (OSError, sqlite3.Error) as exc:
        print(f"cannot read {given.folder}: {printable(exc)}", file=sys.stderr)
        return 2
    for name, number in counts.items():
        print(f"{name}\t{number}")
    print("all agrees")
    return 0


def printable(error: Exception) -> str:
    """Return an error's text; what the books say does not steer the terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(error))


if __name__ == "__main__":
    sys.exit(main())
