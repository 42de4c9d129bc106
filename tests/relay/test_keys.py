"""Keys: what is an identity, and where it rests."""

import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import KeyFileError, WeakKey
from relay.keys import (
    SigningKey,
    check_peer_id,
    load_key,
    load_or_create_key,
    peer_id_from_hex,
    short_id,
    verify,
)

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P
SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
NON_CANONICAL = [
    # y = p + n for the small n, with both signs; and y = 1, -1 with the sign of x = -0.
    *((P + n).to_bytes(32, "little").hex() for n in range(19)),
    *((P + n + 2**255).to_bytes(32, "little").hex() for n in range(19)),
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


def add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Add two points of the curve -x^2 + y^2 = 1 + d x^2 y^2."""
    product = D * a[0] * b[0] * a[1] * b[1]
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + product, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P)
    return x % P, y % P


@pytest.mark.parametrize("text", SMALL_ORDER)
def test_b39_the_listed_keys_are_of_small_order_and_refused(text: str) -> None:
    y = int.from_bytes(bytes.fromhex(text), "little") & (2**255 - 1)
    x_squared = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x_squared, (P + 3) // 8, P)
    if x * x % P != x_squared:
        x = x * pow(2, (P - 1) // 4, P) % P
    point = (x, y)
    for _ in range(3):
        point = add(point, point)
    assert point == (0, 1)
    with pytest.raises(WeakKey, match="small order"):
        check_peer_id(bytes.fromhex(text))


def test_b39_the_neutral_key_signs_everything_so_it_is_nobody() -> None:
    neutral = bytes.fromhex(SMALL_ORDER[0])
    signature = neutral + bytes(32)
    for number in range(400):
        key = Ed25519PublicKey.from_public_bytes(neutral)
        key.verify(signature, str(number).encode())
    with pytest.raises(WeakKey):
        check_peer_id(neutral)


@pytest.mark.parametrize("text", NON_CANONICAL)
def test_b39_keys_in_another_encoding_are_refused(text: str) -> None:
    with pytest.raises(WeakKey, match=r"canonical|small order"):
        check_peer_id(bytes.fromhex(text))


def test_b39_bytes_that_are_no_point_are_refused() -> None:
    refused = 0
    for y in range(2, 200):
        try:
            check_peer_id(y.to_bytes(32, "little"))
        except WeakKey:
            refused += 1
    assert 60 < refused < 140  # about half of all y have a point


@pytest.mark.parametrize("n_bytes", [0, 31, 33, 64])
def test_an_id_has_32_bytes(n_bytes: int) -> None:
    with pytest.raises(WeakKey, match=f"not {n_bytes}"):
        check_peer_id(bytes(n_bytes))


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=100))
def test_a_signature_holds_for_its_key_and_text_only(seed: bytes, text: bytes) -> None:
    key = SigningKey.from_seed(seed)
    assert check_peer_id(key.peer_id) == key.peer_id
    signature = key.sign(text)
    assert verify(key.peer_id, text, signature)
    assert not verify(key.peer_id, text + b"x", signature)
    spoiled = bytearray(signature)
    spoiled[7] ^= 1
    assert not verify(key.peer_id, text, bytes(spoiled))
    assert not verify(key.peer_id, text, signature[:-1])


def test_hex_ids() -> None:
    key = SigningKey.from_seed(bytes(32))
    assert peer_id_from_hex(key.peer_id.hex()) == key.peer_id
    assert short_id(key.peer_id) == key.peer_id.hex()[:8]
    with pytest.raises(WeakKey, match="64 hex digits"):
        peer_id_from_hex("no hex")


def test_a_key_is_never_printed_with_its_secret() -> None:
    key = SigningKey.generate()
    assert key.seed.hex() not in repr(key)
    assert key.peer_id.hex()[:8] in repr(key)


def test_a_new_key_file_is_private_and_read_again(tmp_path) -> None:
    path = tmp_path / "keys" / "relay.key"
    made = load_or_create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_or_create_key(path).peer_id == made.peer_id
    assert load_key(path).seed == made.seed
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"xyz", "hex digits"),
        (b"abcd", "2 bytes"),
        (b"\xff\xfe", "not a text file"),
        (b"", "0 bytes"),
    ],
)
def test_a_file_that_holds_no_key_is_refused(tmp_path, content, message) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(KeyFileError, match=message) as caught:
        load_or_create_key(path)
    assert str(path) in str(caught.value)
    assert caught.value.advice


def test_a_missing_key_file_is_named(tmp_path) -> None:
    with pytest.raises(KeyFileError, match="no such file"):
        load_key(tmp_path / "nothing")


def test_a_folder_that_is_a_file_is_named(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyFileError, match="not a directory"):
        load_or_create_key(tmp_path / "file" / "key")
