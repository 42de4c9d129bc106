"""The golden bytes of the ledger: written by today's program, read without it."""

import base64
import json
import struct
from hashlib import sha256
from itertools import pairwise

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ledger.receipt import Receipt, verify_receipt
from tests.vectors.make_ledger import FILE, SERVINGS, golden

GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))


def raw(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


def check(signer: str, domain: bytes, message: bytes, signature: bytes) -> None:
    key = bytes.fromhex(GOLDEN["keys"].get(signer) or GOLDEN["log"][signer])
    Ed25519PublicKey.from_public_bytes(key).verify(signature, domain + message)


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


def test_domains_differ_and_end_in_nul():
    domains = sorted(bytes.fromhex(text) for text in GOLDEN["domains"].values())
    assert all(domain.endswith(b"\0") for domain in domains)
    assert not any(later.startswith(one) for one, later in pairwise(domains))


def test_the_policy_by_its_written_layout():
    check(
        "ledger",
        b"p2pmoe/policy/v1\0",
        raw("policy"),
        raw("policy_signature"),
    )
    fields = struct.unpack(">4sBIIQQQQQ", raw("policy"))
    assert fields[:4] == (b"PMPO", 1, 25_000, 100_000)
    assert len(fields) == 9


def test_the_papers_of_a_dispute_by_their_written_layout():
    layouts = (("wrong_results", 1, b"x6"), ("unknown_rows", 2, b"y6"))
    for name, reason, opened in layouts:
        paper = {
            key: bytes.fromhex(text) for key, text in GOLDEN["disputes"][name].items()
        }
        opener, other = "backbone", "worker"
        if reason == 2:
            opener, other = other, opener
        claim, answer = paper["claim"], paper["answer"]
        domain = b"p2pmoe/dispute-claim/v1\0"
        check(opener, domain, claim, paper["claim_signature"])
        domain = b"p2pmoe/dispute-answer/v1\0"
        check(other, domain, answer, paper["answer_signature"])
        head = struct.Struct(">4sB32s32sBQ79s32sBI")
        fields = head.unpack_from(claim)
        assert (fields[0], fields[4]) == (b"PMDC", reason)
        assert fields[3].hex() == GOLDEN["voucher_hash"]
        assert claim[head.size :] == opened
        leaf = fields[6]
        x_hash, out_hash = leaf[31:47], leaf[47:63]
        wanted = x_hash if reason == 1 else out_hash
        assert sha256(opened).digest()[:16] == wanted
        head = struct.Struct(">4sB32s32sQ32sBI")
        fields = head.unpack_from(answer)
        assert (fields[0], fields[3]) == (b"PMDA", sha256(claim).digest())
        wanted = out_hash if reason == 1 else x_hash
        assert sha256(answer[head.size :]).digest()[:16] == wanted


def test_the_proof_of_equivocation_by_its_written_layout():
    proof = bytes.fromhex(GOLDEN["equivocation"]["bytes"])
    magic, version, signer = struct.unpack_from(">4sB32s", proof)
    assert (magic, version) == (b"PMEQ", 1)
    assert signer.hex() == GOLDEN["keys"]["worker"]
    at, names = 37, []
    for _ in range(2):
        (length,) = struct.unpack_from(">I", proof, at)
        body = proof[at + 4 : at + 4 + length]
        at += 4 + length + 64
        check("worker", b"p2pmoe/voucher/v1\0", body, proof[at - 64 : at])
        names.append(sha256(body).digest())
    assert at == len(proof)
    name = sha256(b"p2pmoe/equivocation/v1\0" + signer + b"".join(names))
    assert name.hexdigest() == GOLDEN["equivocation"]["name"]


def test_the_log_by_its_written_layout():
    log = GOLDEN["log"]
    entry = bytes.fromhex(log["entry"])
    magic, version, length = struct.unpack_from(">4sBH", entry)
    assert (magic, version) == (b"PMLE", 1)
    assert entry[7 : 7 + length].hex() == GOLDEN["voucher"]
    rest = entry[7 + length :]
    assert rest[:64].hex() == GOLDEN["worker_signature"]
    assert rest[64:128].hex() == GOLDEN["backbone_signature"]
    assert rest[128:] == sha256(raw("policy")).digest()
    assert sha256(b"\0" + entry).hexdigest() == log["entry_hash"]
    text, signatures = log["checkpoint"].split("\n\n")
    origin, size, root = text.split("\n")
    assert origin == f"p2pmoe.ledger/{GOLDEN['keys']['network']}"
    assert (size, base64.b64decode(root).hex()) == ("1", log["entry_hash"])
    own, witness = (
        base64.b64decode(line.split(" ")[2]) for line in signatures.splitlines()
    )
    text += "\n"
    check("ledger", b"", text.encode(), own[4:])
    (time_s,) = struct.unpack(">Q", witness[4:12])
    header = f"cosignature/v1\ntime {time_s}\n"
    check("witness", header.encode(), text.encode(), witness[12:])
