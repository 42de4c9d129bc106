"""Keys and signatures: weak keys, foreign domains, Wycheproof."""

import json

import pytest

from ledger.errors import KeyRefused, LedgerError, SignatureRefused
from ledger.keys import parse_key, short, verify
from tests.support.ledger_world import Party
from tests.support.shared import shared_path

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - k, -1, P) % P
    return x, y


def decompress(y: int) -> tuple[int, int] | None:
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == u:
        return x, y
    x = x * SQRT_M1 % P
    return (x, y) if v * x * x % P == u else None


def torsion() -> set[tuple[int, int]]:
    """All points of order 8, by clearing the prime-order part of some point."""
    order = 2**252 + 27742317777372353535851937790883648493
    for y in range(2, 100):
        point = decompress(y)
        if point is None:
            continue
        total, base, n = (0, 1), point, order
        while n:
            if n & 1:
                total = add(total, base)
            base, n = add(base, base), n >> 1
        points, at = {(0, 1)}, total
        while at != (0, 1):
            points.add(at)
            at = add(at, total)
        if len(points) == 8:
            return points
    raise AssertionError


def test_b39_all_points_of_small_order_are_refused_however_encoded():
    points = torsion()
    assert len(points) == 8
    for x, y in points:
        for y_encoded in (y, y + P):
            if y_encoded >= 2**255:
                continue
            for sign in (0, 1):
                raw = (y_encoded | sign << 255).to_bytes(32, "little")
                with pytest.raises(KeyRefused):
                    parse_key(raw)
        assert (-x * x + y * y - 1 - D * x * x * y * y) % P == 0


def test_b39_the_key_that_signs_everything_is_refused():
    key = b"\x01" + bytes(31)
    with pytest.raises(KeyRefused):
        verify(key, b"domain\0", b"any message", key + bytes(32))


@pytest.mark.parametrize("y", [P, P + 1, P + 18, 2**255 - 1])
def test_non_canonical_keys_are_refused(y):
    with pytest.raises(KeyRefused, match="not canonical"):
        parse_key(y.to_bytes(32, "little"))


def test_keys_off_the_curve_and_of_other_lengths_are_refused():
    off = next(y for y in range(2, 50) if decompress(y) is None)
    with pytest.raises(KeyRefused, match="not on the curve"):
        parse_key(off.to_bytes(32, "little"))
    with pytest.raises(KeyRefused, match="31 bytes"):
        parse_key(bytes(31))


def test_signatures_are_bound_to_domain_message_and_key():
    alice, bob = Party("alice"), Party("bob")
    signature = alice.sign(b"a\0" + b"message")
    verify(alice.id, b"a\0", b"message", signature)
    for key, domain, message, given in (
        (bob.id, b"a\0", b"message", signature),
        (alice.id, b"b\0", b"message", signature),
        (alice.id, b"a\0", b"Message", signature),
        (alice.id, b"a\0", b"message", signature[:63]),
        (alice.id, b"a\0", b"message", b""),
    ):
        with pytest.raises(SignatureRefused):
            verify(key, domain, message, given)
    assert short(alice.id) == alice.id.hex()[:8]


def test_s_plus_l_is_refused():
    alice = Party("alice")
    order = 2**252 + 27742317777372353535851937790883648493
    signature = alice.sign(b"m")
    s = int.from_bytes(signature[32:], "little") + order
    with pytest.raises(SignatureRefused):
        verify(alice.id, b"", b"m", signature[:32] + s.to_bytes(32, "little"))


def test_wycheproof():
    path = shared_path("vectors/wycheproof/ed25519_test.json")
    n = 0
    for group in json.loads(path.read_text())["testGroups"]:
        key = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            message, signature = (bytes.fromhex(case[k]) for k in ("msg", "sig"))
            try:
                verify(key, b"", message, signature)
                outcome = "valid"
            except LedgerError:
                outcome = "invalid"
            assert outcome == case["result"], case["tcId"]
            n += 1
    assert n > 100
