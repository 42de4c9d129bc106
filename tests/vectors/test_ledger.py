"""The golden bytes of the ledger: written by today's program, read without it."""

import json
import struct
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.receipt import Receipt, verify_receipt
from tests.vectors.make_ledger import FILE, SERVINGS, golden

GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))


def test_the_program_still_writes_them():
    assert golden() == GOLDEN


def test_leaves_read_by_the_written_layout():
    total = 0
    for number, text in zip(SERVINGS, GOLDEN["leaves"], strict=True):
        raw = bytes.fromhex(text)
        assert len(raw) == 79
        assert raw[0] == 1
        assert raw[1:9] == b"tab-0001"
        assert struct.unpack(">I", raw[9:13]) == (number,)
        total += struct.unpack(">q", raw[71:])[0]
    assert total == int.from_bytes(bytes.fromhex(GOLDEN["voucher"])[-112:-104], "big")


def test_signatures_and_names_by_the_library_alone():
    for signer, domain, message, signature in (
        ("worker", "voucher", "voucher", "worker_signature"),
        ("backbone", "voucher", "voucher", "backbone_signature"),
        ("ledger", "grant", "grant", "ledger_signature"),
        ("market", "prices", "prices", "market_signature"),
    ):
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(GOLDEN["keys"][signer]))
        key.verify(
            bytes.fromhex(GOLDEN[signature]),
            bytes.fromhex(GOLDEN["domains"][domain]) + bytes.fromhex(GOLDEN[message]),
        )
    digest = sha256(bytes.fromhex(GOLDEN["voucher"])).hexdigest()
    assert digest == GOLDEN["voucher_hash"]
    assert bytes.fromhex(GOLDEN["domains"]["voucher"]) == b"p2pmoe/voucher/v1\0"


def test_the_receipt_verifies():
    keys = {name: bytes.fromhex(text) for name, text in GOLDEN["keys"].items()}
    receipt = Receipt.from_json(json.dumps(GOLDEN["receipt"]))
    check = verify_receipt(
        receipt, network=keys["network"], ledger=keys["ledger"], market=keys["market"]
    )
    assert check.leaf.serving == 6
