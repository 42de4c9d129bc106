r"""Signed notes: a text, a blank line, and lines of signatures that name their key.

Contract: the text ends in a newline and is what is signed. Each signature line is

    EM DASH (U+2014) | space | name | space | base64(key id 4 || signature) | newline

with key id = SHA-256(name || "\n" || kind u8 || public key)[:4]. Kinds: 1 Ed25519 over
the text, 4 a witness's cosignature (`ledger.log.checkpoint`). A verifier key is written
`name+hex(key id)+base64(kind || public key)`. Names have neither spaces nor plus.
Reading is strict and bounded, one encoding for one note; lines of keys that are not
asked for are kept and never believed. Pure; nothing is verified here.

Specification: C2SP signed-note v1.
"""

import base64
import binascii
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256

from ledger.errors import FormatRefused
from ledger.keys import parse_key

__all__ = [
    "MAX_NAME_BYTES",
    "MAX_NOTE_BYTES",
    "MAX_SIGNATURES",
    "NoteKey",
    "NoteSignature",
    "SignatureKind",
    "SignedNote",
]

MAX_NOTE_BYTES = 64 << 10
MAX_SIGNATURES = 64
MAX_NAME_BYTES = 255
_DASH = "\u2014 "
_ID_BYTES = 4


class SignatureKind(IntEnum):
    """What a key signs, as the specification numbers it."""

    ED25519 = 1
    COSIGNATURE = 4


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line, not verified."""

    name: str
    key_id: bytes  # [4]
    signature: bytes

    @property
    def line(self) -> str:
        """The line, without its newline."""
        packed = base64.b64encode(self.key_id + self.signature).decode()
        return f"{_DASH}{self.name} {packed}"

    @staticmethod
    def parse(line: str) -> "NoteSignature":
        """Read one line, without its newline.

        Raises:
            FormatRefused: no signature line, or not in its one encoding.
        """
        name, _, packed = line.removeprefix(_DASH).partition(" ")
        raw = _from_base64(packed)
        if not line.startswith(_DASH) or len(raw) <= _ID_BYTES:
            raise FormatRefused("note: no signature line")
        _check_name(name)
        return NoteSignature(name, raw[:_ID_BYTES], raw[_ID_BYTES:])


@dataclass(frozen=True, slots=True)
class NoteKey:
    """A public key under a name, for one kind of signature."""

    name: str
    kind: SignatureKind
    key: bytes  # [32]

    def __post_init__(self) -> None:
        """Refuse names and keys that cannot be.

        Raises:
            FormatRefused: a name with spaces, plus or nothing.
            KeyRefused: a weak or malformed key.
        """
        _check_name(self.name)
        parse_key(self.key)

    @property
    def id(self) -> bytes:
        """The 4 bytes by which signature lines name the key."""
        kind = bytes([self.kind])
        return sha256(self.name.encode() + b"\n" + kind + self.key).digest()[:_ID_BYTES]

    @property
    def text(self) -> str:
        """The verifier key as it is handed around."""
        packed = base64.b64encode(bytes([self.kind]) + self.key).decode()
        return f"{self.name}+{self.id.hex()}+{packed}"

    @staticmethod
    def parse(text: str) -> "NoteKey":
        """Read a verifier key.

        Raises:
            FormatRefused: not of this form, or its id is another key's.
            KeyRefused: a weak or malformed key.
        """
        if len(text) > 4 * MAX_NAME_BYTES:
            raise FormatRefused(f"verifier key of {len(text)} characters")
        name, _, rest = text.partition("+")
        key_id, _, packed = rest.partition("+")
        raw = _from_base64(packed)
        kinds = {int(kind) for kind in SignatureKind}
        if len(raw) != 33 or raw[0] not in kinds:
            raise FormatRefused(f"verifier key {text!r}: no Ed25519 key")
        key = NoteKey(name, SignatureKind(raw[0]), raw[1:])
        if key_id != key.id.hex():
            raise FormatRefused(f"verifier key {text!r}: its id is {key.id.hex()}")
        return key

    def made(self, signature: NoteSignature) -> bool:
        """Say whether a line names this key; what it signed is not looked at."""
        return (signature.name, signature.key_id) == (self.name, self.id)


@dataclass(frozen=True, slots=True)
class SignedNote:
    """A text and its signature lines."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def pack(self) -> bytes:
        """Return the note's bytes."""
        lines = "".join(f"{signature.line}\n" for signature in self.signatures)
        return f"{self.text}\n{lines}".encode()

    @staticmethod
    def parse(raw: bytes) -> "SignedNote":
        """Read a note.

        Raises:
            FormatRefused: too long, no UTF-8, control characters, no signature line or
                too many.
        """
        if len(raw) > MAX_NOTE_BYTES:
            raise FormatRefused(f"note of {len(raw)} bytes")
        try:
            whole = raw.decode()
        except UnicodeDecodeError as exc:
            raise FormatRefused("note is no UTF-8") from exc
        if any(char < " " and char != "\n" for char in whole):
            raise FormatRefused("note has control characters")
        body, blank, lines = whole.rpartition("\n\n")
        if not blank or not lines.endswith("\n"):
            raise FormatRefused("note has no signatures")
        signatures = lines.removesuffix("\n").split("\n")
        if len(signatures) > MAX_SIGNATURES:
            raise FormatRefused(f"note with {len(signatures)} signatures")
        return SignedNote(f"{body}\n", tuple(map(NoteSignature.parse, signatures)))


def _check_name(name: str) -> None:
    odd = any(char.isspace() or char < " " or char == "+" for char in name)
    if not name or odd or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        raise FormatRefused(f"key name {name[:40]!r} is empty, too long, or has spaces")


def _from_base64(text: str) -> bytes:
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as exc:
        raise FormatRefused("note: no base64") from exc
    if base64.b64encode(raw).decode() != text:
        raise FormatRefused("note: base64 is not canonical")
    return raw
