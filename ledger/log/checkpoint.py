r"""Checkpoints: the log's size and root, signed by the ledger and by witnesses.

Contract: a checkpoint is a signed note (`ledger.log.note`) of exactly three lines:

    p2pmoe.ledger/<network id, 64 hex digits>      the origin: which log
    <number of entries, decimal>
    <root, base64>

The ledger signs the text with its Ed25519 key under the origin as key name (kind 1).
The text begins with the origin and has no NUL, so it is never mistaken for another
thing the ledger signs. A witness adds a line (kind 4) of `time u64 || signature 64`,
Ed25519 over

    cosignature/v1\n time <seconds since 1970>\n <the three lines>

which says: at that time this was the largest tree I had seen of this log, and it
contains every earlier one I saw. There is no time in the checkpoint itself: a log can
write any. Pure: no clock, no store.

Specification: C2SP tlog-checkpoint v1, tlog-cosignature v1 (Ed25519).
"""

import base64
import binascii
import re
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ledger.errors import FormatRefused, RemoteError, SignatureRefused
from ledger.keys import SIGNATURE_BYTES, short, verify
from ledger.log.note import NoteKey, NoteSignature, SignatureKind, SignedNote
from ledger.log.tree import HASH_BYTES, MAX_SIZE

__all__ = [
    "Checkpoint",
    "Cosigner",
    "cosign",
    "cosigners_of",
    "log_key",
    "log_origin",
    "sign_checkpoint",
    "verify_checkpoint",
    "verify_cosignature",
    "witness_key",
]

_SIZE = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_TIME = struct.Struct(">Q")
_MAX_TIME_S = 253_370_764_799  # the end of 9998: every calendar can show it


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The head of a log."""

    origin: str
    size: int  # entries
    root: bytes  # [32]

    @property
    def text(self) -> str:
        """The three lines that are signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @staticmethod
    def parse(text: str) -> "Checkpoint":
        """Read the three lines back.

        Raises:
            FormatRefused: other lines, or not in their one encoding.
        """
        lines = text.split("\n")
        if len(lines) != 4 or not all(lines[:3]) or lines[3]:
            raise FormatRefused("checkpoint is not of three lines")
        origin, size, root = lines[:3]
        if _SIZE.fullmatch(size) is None or int(size) > MAX_SIZE:
            raise FormatRefused(f"checkpoint of size {size[:24]!r}")
        try:
            checkpoint = Checkpoint(origin, int(size), base64.b64decode(root))
        except (binascii.Error, ValueError) as exc:
            raise FormatRefused("checkpoint: root is no base64") from exc
        if len(checkpoint.root) != HASH_BYTES or checkpoint.text != text:
            raise FormatRefused("checkpoint: root is no canonical base64 of 32 bytes")
        return checkpoint


@dataclass(frozen=True, slots=True)
class Cosigner:
    """Who cosigned a checkpoint, verified, and when it says it did."""

    name: str
    key: bytes  # [32]
    time_s: int  # seconds since 1970, the witness's word
    line: str  # the note's signature line, without newline


def log_origin(network: bytes) -> str:
    """Return the origin line of a network's log."""
    return f"p2pmoe.ledger/{network.hex()}"


def log_key(network: bytes, ledger: bytes) -> NoteKey:
    """Return the key that signs a network's checkpoints."""
    return NoteKey(log_origin(network), SignatureKind.ED25519, ledger)


def witness_key(name: str, key: bytes) -> NoteKey:
    """Return a witness's key.

    Raises:
        FormatRefused, KeyRefused: a name or key that cannot be.
    """
    return NoteKey(name, SignatureKind.COSIGNATURE, key)


def sign_checkpoint(
    checkpoint: Checkpoint, key: NoteKey, sign: Callable[[bytes], bytes]
) -> SignedNote:
    """Return the note of a checkpoint, signed by its log."""
    signature = NoteSignature(key.name, key.id, sign(checkpoint.text.encode()))
    return SignedNote(checkpoint.text, (signature,))


def verify_checkpoint(note: SignedNote, key: NoteKey) -> Checkpoint:
    """Check the log's signature, then read the checkpoint.

    Raises:
        SignatureRefused: no line of this key, or one that does not verify.
        FormatRefused: signed, but no checkpoint of this log.
    """
    own = [signature for signature in note.signatures if key.made(signature)]
    if not own:
        raise SignatureRefused(
            f"checkpoint is not signed by {short(key.key)}", peer=key.key
        )
    for signature in own:
        _verify(key, b"", note.text, signature.signature)
    checkpoint = Checkpoint.parse(note.text)
    if checkpoint.origin != key.name:
        raise FormatRefused(f"checkpoint of {checkpoint.origin[:80]!r}")
    return checkpoint


def cosign(
    note: SignedNote, key: NoteKey, sign: Callable[[bytes], bytes], time_s: int
) -> SignedNote:
    """Return the note with a witness's line at the end; its older one is left out.

    What the line claims must have been checked: `ledger.log.witness` does.

    Args:
        note: a checkpoint, verified.
        key: the witness's key and name.
        sign: makes the witness's Ed25519 signature over given bytes.
        time_s: seconds since 1970.
    """
    signature = sign(_cosigned(note.text, time_s))
    line = NoteSignature(key.name, key.id, _TIME.pack(time_s) + signature)
    others = tuple(each for each in note.signatures if not key.made(each))
    return replace(note, signatures=(*others, line))


def verify_cosignature(text: str, signature: NoteSignature, key: NoteKey) -> int:
    """Check a witness's line and return its time in seconds since 1970.

    Raises:
        SignatureRefused: another key's line, or it does not verify.
    """
    raw = signature.signature
    if not key.made(signature) or len(raw) != _TIME.size + SIGNATURE_BYTES:
        raise SignatureRefused(f"no cosignature of {short(key.key)}", peer=key.key)
    time_s: int = _TIME.unpack_from(raw)[0]
    if time_s > _MAX_TIME_S:
        raise SignatureRefused(f"cosignature of second {time_s}", peer=key.key)
    header = f"cosignature/v1\ntime {time_s}\n".encode()
    _verify(key, header, text, raw[_TIME.size :])
    return time_s


def cosigners_of(note: SignedNote, witnesses: Iterable[bytes]) -> tuple[Cosigner, ...]:
    """Return which of some witnesses, by 32-byte key, cosigned a checkpoint.

    A witness whose line does not verify is not among them; lines of others are ignored.
    """
    found: dict[bytes, Cosigner] = {}
    for key in witnesses:
        for signature in note.signatures:
            try:
                named = witness_key(signature.name, key)
                time_s = verify_cosignature(note.text, signature, named)
            except RemoteError:
                continue
            found[key] = Cosigner(signature.name, key, time_s, signature.line)
    return tuple(found.values())


def _cosigned(text: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def _verify(key: NoteKey, header: bytes, text: str, signature: bytes) -> None:
    try:
        verify(key.key, b"", header + text.encode(), signature)
    except SignatureRefused as exc:
        raise SignatureRefused(
            f"signature of {short(key.key)} does not verify for a checkpoint",
            peer=key.key,
        ) from exc
