"""Write spoilt bytes and their verdicts: `python -m tests.vectors.make_hostile`.

`protocol/hostile.json`: by what parses them, pairs of bytes and what the program here
makes of them: their fields, or null where it refuses. Bytes are spoilt by a seeded
draw; what is signed is signed anew, so that the fields behind the signature are tried.
"""

import dataclasses
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack

from ledger.errors import LedgerError
from ledger.grant import Grant, sign_grant, verify_grant
from ledger.leaf import Leaf
from ledger.prices import PriceTable
from ledger.voucher import Voucher
from mobile_worker.errors import MessageError, RecordError
from mobile_worker.messages import encode_message, parse_message
from mobile_worker.session.descriptor import parse_descriptor
from mobile_worker.session.records import parse_record
from relay.errors import RelayError
from relay.frames import encode_frame, parse_frame
from relay.greetings import parse_challenge, parse_deny
from relay.keys import SIGNATURE_BYTES
from tests.support.ledger_world import Party, paper_tab
from tests.support.messages import EXAMPLES
from tests.vectors.make_protocol import (
    FRAMES,
    NETWORK,
    descriptor,
    identity_of,
    plain,
    record_of,
    way_in,
)

__all__ = ["FILE", "golden", "main"]

FILE = Path(__file__).parent / "protocol" / "hostile.json"
Verdict = list[object]  # bytes in hex, and the fields or null
# What a worker takes.
TAKEN = (
    "hello",
    "hello_ack",
    "lease",
    "release",
    "grant",
    "get",
    "blob",
    "dispatch",
    "accept",
    "cancel",
    "busy",
    "draining",
    "countersign",
    "refused",
    "file",
    "filed",
    "canary",
    "standing",
)
FROM_RELAYS = (
    "ping",
    "status",
    "restarting",
    "limits",
    "recv",
    "nack",
    "gone",
    "presence",
    "seen_from",
)
# Values of msgpack: such as do not belong, or in an encoding that nobody writes.
_ODD = (
    "c0 c2 c3 00 01 7f ff e0 cc00 cc01 ccff cd0001 cdffff ce00000001 ceffffffff "
    "cf0000000000000001 cf7fffffffffffffff cf8000000000000000 cfffffffffffffffff "
    "d0ff d001 d100ff d2ffffffff d38000000000000000 d30000000000000001 ca3f800000 "
    "cb3ff0000000000000 a0 a161 a1ff a3eda080 a2c080 d90161 da000161 db0000000161 "
    "d9ff61 c400 c40100 c50001aa c600000001bb c4ff00 90 9100 91c3 91cd0001 9101 "
    "9191919100 92a16101 920101 930201ff dc000101 dd0000000101 dc0101 80 81a16101 "
    "de000080 d40000 c70000 c7ffff c1 d8 920020 920140 92cd000301 9300010a"
)
VALUES = [bytes.fromhex(text) for text in _ODD.split()]
N_MESSAGES = 14  # of each kind
N_PLAIN = 12


def verdict(raw: bytes, parse: Callable[[bytes], object], *errors: Any) -> Verdict:
    """Return the bytes with what comes of them; any other error is raised."""
    try:
        return [raw.hex(), plain(parse(raw))]
    except errors:
        return [raw.hex(), None]


def spoil(chance: random.Random, raw: bytes) -> bytes:
    """Return bytes that differ: a bit, a byte, some more or some less."""
    spoilt = bytearray(raw)
    for _ in range(chance.choice((1, 1, 1, 2))):
        at = chance.randrange(len(spoilt)) if spoilt else 0
        way = chance.randrange(6)
        if way == 0:
            spoilt = spoilt[:at]
        elif way == 1:
            spoilt += chance.randbytes(chance.choice((1, 4, 8)))
        elif way == 2 and spoilt:
            spoilt[at] = chance.choice((0, 1, 127, 128, 255))
        elif spoilt:
            spoilt[min(at, chance.choice((at, 3, 8)))] ^= 1 << chance.randrange(8)
    return bytes(spoilt)


def close(number: int, header: bytes, body: bytes) -> bytes:
    """Return a frame whose checksum is right whatever it holds."""
    first = bytes([number]) + len(header).to_bytes(4, "big")
    checksum = zlib.crc32(body, zlib.crc32(header, zlib.crc32(first)))
    return first + checksum.to_bytes(4, "big") + header + body


def spoil_message(chance: random.Random, frame: bytes) -> bytes:
    """Return the frame of a message with something wrong in header or body."""
    end = 9 + int.from_bytes(frame[1:5], "big")
    header, body = msgpack.unpackb(frame[9:end]), frame[end:]
    pairs = [(msgpack.packb(k), msgpack.packb(v)) for k, v in header.items()]
    way = chance.randrange(10)
    at = chance.randrange(len(pairs))
    if way == 0:
        return spoil(chance, frame)
    if way == 1:
        return close(frame[0], spoil(chance, frame[9:end]), body)
    if way == 2:
        body = spoil(chance, body + b"\0" * chance.choice((0, 1, 4)))
    elif way == 3:
        more = (pairs[-1], (b"\xa1x", b"\x01"), (b"\x01", b"\x01"))
        pairs.insert(at, chance.choice(more))
    elif way == 4:
        del pairs[at]
    else:
        value = chance.choice((pairs[chance.randrange(len(pairs))][1], *VALUES))
        pairs[at] = (pairs[at][0], value)
    n = len(pairs)
    if chance.random() < 0.05:
        n = max(0, n + chance.choice((-1, 1)))
    short = bytes([0x80 | n]) if n < 16 and chance.random() < 0.8 else b""
    head = short or b"\xde" + n.to_bytes(2, "big")
    return close(frame[0], head + b"".join(k + v for k, v in pairs), body)


def tensors(chance: random.Random, frame: bytes) -> bytes:
    """Return a frame whose tensors are described otherwise, over the same bytes."""
    end = 9 + int.from_bytes(frame[1:5], "big")
    header = msgpack.unpackb(frame[9:end])
    names = [name for name, value in header.items() if isinstance(value, list)]
    name = chance.choice(names)
    dtype, *shape = header[name]
    n = shape[0]
    header[name] = chance.choice(
        (
            [dtype, 1, n],
            [dtype, n, 1],
            [dtype, n // 2, 2],
            [dtype, 2, n // 2],
            [dtype, n, 1, 1],
            [dtype],
            [dtype, 0],
            [dtype, -n],
            [dtype, n + 1],
            [dtype, 2**26 + 1],
            [dtype ^ 1, n],
            [9, n],
            [dtype, float(n)],
            [dtype, *shape[::-1]],
        )
    )
    return close(frame[0], msgpack.packb(header), frame[end:])


def messages(chance: random.Random) -> dict[str, list[Verdict]]:
    made: dict[str, list[Verdict]] = {}
    for name in TAKEN:
        frame = encode_message(EXAMPLES[name])
        spoilt = [frame, *(spoil_message(chance, frame) for _ in range(N_MESSAGES))]
        if name in {"lease", "release", "blob", "dispatch", "accept", "file", "canary"}:
            spoilt += [tensors(chance, frame) for _ in range(8)]
        made[name] = [verdict(raw, parse_message, MessageError) for raw in spoilt]
    made["dispatch"] += [
        verdict(raw, parse_message, MessageError) for raw in dispatches()
    ]
    return made


def dispatches() -> list[bytes]:
    """Frames of DISPATCH whose parts contradict each other."""
    frame = encode_message(EXAMPLES["dispatch"])
    end = 9 + int.from_bytes(frame[1:5], "big")
    made = []
    words = (
        [5, 2, 0, 1, 9, 1, 1],
        [5, 2, 1, 0],
        [5, 2, 0, 0],
        [5, 1, 2],
        [5, 0],
        [5, 0, 9, 1, 1],
        [5, 3, 0, 1],
        [5, 1, 0, 5, 1, 1],
        [65_535, 1, 0],
        [65_536, 1, 0],
        [5, 4_294_967_295, 0],
        [5],
    )
    for numbers in words:
        header = msgpack.unpackb(frame[9:end])
        header["calls"] = [1, len(numbers)]
        raw = b"".join(number.to_bytes(4, "little") for number in numbers)
        body = frame[end : end + 144] + raw
        made.append(close(frame[0], msgpack.packb(header), body))
    for name, value in (
        ("n_embd", 32),
        ("n_embd", 0),
        ("n_embd", 128),
        ("n_rows", 1),
        ("n_rows", 4),
        ("n_rows", 8193),
        ("first_serving", 2**32 - 2),
        ("first_serving", 2**32 - 1),
        ("profile", 3),
    ):
        header = msgpack.unpackb(frame[9:end])
        header[name] = value
        made.append(close(frame[0], msgpack.packb(header), frame[end:]))
    return made


def frames(chance: random.Random) -> list[Verdict]:
    made = []
    for name in FROM_RELAYS:
        raw = encode_frame(FRAMES[name])
        spoilt = [spoil(chance, raw) for _ in range(N_PLAIN)]
        made += [
            verdict(each, parse_frame, RelayError)
            for each in spoilt
            if each[:1] not in {b"\x10", b"\x14"}  # which a peer is not sent
        ]
    return made


def greetings(chance: random.Random) -> dict[str, list[Verdict]]:
    way = way_in()
    parsers = {"challenge": parse_challenge, "deny": parse_deny}
    return {
        name: [
            verdict(spoil(chance, bytes.fromhex(str(way[name]))), parse, RelayError)
            for _ in range(N_PLAIN)
        ]
        for name, parse in parsers.items()
    }


def resigned(
    chance: random.Random, raw: bytes, domain: bytes, sign: Callable[[bytes], bytes]
) -> bytes:
    """Return signed msgpack with another value in it, signed again."""
    values = msgpack.unpackb(raw[:-SIGNATURE_BYTES])
    parts = [msgpack.packb(value) for value in values]
    at = chance.randrange(len(parts))
    if chance.random() < 0.2:
        parts.insert(at, b"\x01")
    else:
        parts[at] = chance.choice(VALUES)
    head = bytes([0x90 | len(parts)])
    packed = head + b"".join(parts)
    return packed + sign(domain + packed)


def signed(chance: random.Random) -> dict[str, list[Verdict]]:
    own = identity_of("one")
    record, said = record_of("one").encoded, descriptor()
    kinds = {
        "record": (record, b"p2pmoe peer record v1\0", own.sign, parse_record),
        "descriptor": (
            said,
            b"p2pmoe network descriptor v1\0",
            NETWORK.sign,
            parse_descriptor,
        ),
    }
    made = {}
    for name, (raw, domain, sign, parse) in kinds.items():
        spoilt = [spoil(chance, raw) for _ in range(N_PLAIN)]
        spoilt += [resigned(chance, raw, domain, sign) for _ in range(60)]
        made[name] = [verdict(each, parse, RecordError) for each in spoilt]
    return made


def books(chance: random.Random) -> dict[str, list[Verdict]]:
    """Leaves, vouchers, price tables and grants, these signed by the ledger."""
    tab = paper_tab()
    voucher, _ = tab.next(0, 1, 2, 5, 6, 9)
    table = dataclasses.replace(
        tab.world.prices, multipliers={1: 5, 2: 1 << 17, 1 << 16: 0, 1 << 31: 3}
    )
    ledger = Party("ledger")
    kinds = (
        ("leaf", next(iter(tab.leaves.values())), Leaf.parse),
        ("voucher", voucher.raw, Voucher.parse),
        ("prices", table.pack(), PriceTable.parse),
        ("grant", tab.grant.pack(), Grant.parse),
    )
    made: dict[str, list[Verdict]] = {}
    for name, raw, parse in kinds:
        spoilt = [raw, *(spoil_layout(chance, raw) for _ in range(3 * N_PLAIN))]
        made[name] = [verdict(each, parse, LedgerError) for each in spoilt]
    made["grant"] = [
        [*case, sign_grant(bytes.fromhex(str(case[0])), ledger.sign).hex()]
        for case in made["grant"]
    ]
    made["amounts"] = amounts(table)
    for raw, _, signature in made["grant"]:
        check_grant(bytes.fromhex(str(raw)), bytes.fromhex(str(signature)), ledger.id)
    return made


def amounts(table: PriceTable) -> list[Verdict]:
    """What rows of some experts cost: [layer, expert, rows, amount or null]."""
    dear = dataclasses.replace(table, base_uc=2**53 - 1)
    made: list[Verdict] = [[dear.pack().hex(), None]]
    for priced in (table, dear):
        for layer, expert in ((0, 0), (0, 1), (0, 2), (1, 0), (1 << 15, 0), (9, 9)):
            for rows in (1, 3, 8192):
                try:
                    amount = priced.amount(layer, expert, rows)
                except LedgerError:
                    amount = None
                made.append([priced is dear, layer, expert, rows, amount])
    return made


def check_grant(raw: bytes, signature: bytes, ledger: bytes) -> None:
    """Make sure that a signature says nothing else than the bytes themselves do."""
    parsed = verdict(raw, Grant.parse, LedgerError)
    assert parsed == verdict(
        raw, lambda each: verify_grant(each, signature, ledger), LedgerError
    )


def spoil_layout(chance: random.Random, raw: bytes) -> bytes:
    """Spoil anywhere, or a run of bytes, as if a number were huge or negative."""
    if chance.random() < 0.5:
        return spoil(chance, raw)
    at, n = chance.randrange(len(raw)), chance.choice((1, 4, 8))
    filled = bytes([chance.choice((0, 1, 127, 255))]) * n
    return (raw[:at] + filled + raw[at + n :])[: len(raw)]


def golden() -> dict[str, object]:
    """Return everything, as it is written."""
    chance = random.Random(11)
    return {
        "messages": messages(chance),
        "frames": frames(chance),
        **greetings(chance),
        **signed(chance),
        **books(chance),
    }


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(golden()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
