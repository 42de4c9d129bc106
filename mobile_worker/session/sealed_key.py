"""A key file under a passphrase, for a backup or another machine. Pure.

Four lines of text, the first three authenticated with the fourth:

    p2pmoe sealed key v1
    peer <64 hex digits of the peer id>
    scrypt <log2 N> <32 hex digits of salt>
    aes-256-gcm <24 hex digits of nonce> <hex digits of ciphertext and tag>

What is sealed is the content of the key file (`session.identity`). The passphrase is
taken in Unicode's NFC form, as UTF-8. N is bounded on reading, so that a hostile file
costs no more than 256 MiB; r is 8 and p is 1. Sources: RFC 7914 (scrypt), NIST SP
800-38D (GCM).
"""

import re
import secrets
import unicodedata

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from mobile_worker.errors import IdentityError
from mobile_worker.session.identity import Identity, parse_identity
from relay.keys import short_id

__all__ = ["MAX_SEALED_BYTES", "MIN_PASSPHRASE", "open_key", "seal_key"]

MAX_SEALED_BYTES = 4096
MIN_PASSPHRASE = 10  # characters
_HEADING = "p2pmoe sealed key v1"
_COST = 17  # log2 of scrypt's N: 128 MiB, a second or two on a phone
_COSTS = range(10, 19)
_FORM = re.compile(
    rf"({_HEADING}\npeer ([0-9a-f]{{64}})\nscrypt (\d{{2}}) ([0-9a-f]{{32}})\n)"
    r"aes-256-gcm ([0-9a-f]{24}) ([0-9a-f]{32,2048})\n?",
    re.ASCII,
)


def seal_key(identity: Identity, passphrase: str, *, cost: int = _COST) -> str:
    """Return the text of a sealed key.

    Raises:
        IdentityError: the passphrase is too short.
    """
    if len(passphrase) < MIN_PASSPHRASE:
        raise IdentityError(
            f"a passphrase of {len(passphrase)} characters",
            advice=f"take {MIN_PASSPHRASE} or more, some words in a row for example",
        )
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    head = (
        f"{_HEADING}\npeer {identity.peer_id.hex()}\nscrypt {cost:02d} {salt.hex()}\n"
    )
    key = _derive(passphrase, salt, cost)
    sealed = AESGCM(key).encrypt(nonce, identity.text().encode(), head.encode())
    return f"{head}aes-256-gcm {nonce.hex()} {sealed.hex()}\n"


def open_key(text: str, passphrase: str) -> Identity:
    """Return the identity in a sealed key.

    Raises:
        IdentityError: it is no sealed key, was changed, or has another passphrase.
    """
    match = _FORM.fullmatch(text)
    if match is None or int(match[3]) not in _COSTS:
        raise IdentityError(
            "this is no sealed key", advice="name a file of `p2pmoe key export`"
        )
    head, peer, cost, salt, nonce, sealed = match.groups()
    key = _derive(passphrase, bytes.fromhex(salt), int(cost))
    if len(sealed) % 2:
        sealed = ""  # half a byte: nothing that opens
    try:
        raw = AESGCM(key).decrypt(
            bytes.fromhex(nonce), bytes.fromhex(sealed), head.encode()
        )
    except InvalidTag as error:
        raise IdentityError(
            "the passphrase is wrong, or the file was changed",
            advice="try again; nothing was written",
        ) from error
    identity = parse_identity(raw.decode("ascii", "replace"), "the sealed key")
    if identity.peer_id.hex() != peer:
        raise IdentityError(
            f"the sealed key is not that of {short_id(bytes.fromhex(peer))}"
        )
    return identity


def _derive(passphrase: str, salt: bytes, cost: int) -> bytes:
    normal = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    return Scrypt(salt=salt, length=32, n=1 << cost, r=8, p=1).derive(normal)
