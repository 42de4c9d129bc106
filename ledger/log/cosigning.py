"""Take in what witnesses say: `log.cosign`, an operation of the ledger.

Contract: a note is taken if its text is one of the ledger's own checkpoints, word for
word; of its lines those by known witnesses are verified and kept, once for each witness
and checkpoint; all others are ignored. A witness is known when the operator names its
key with a note, or writes it into the file `witnesses` of the ledger's folder, one
verifier key a line. Cosignatures move no money; a repeat changes nothing.
"""

from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select

from ledger.database import LedgerFolder
from ledger.errors import (
    FormatRefused,
    NotFound,
    OperationRefused,
    RemoteError,
    SignatureRefused,
    StoreUnavailable,
)
from ledger.log.checkpoint import Checkpoint, Cosigner, cosigners_of
from ledger.log.folder import write_whole
from ledger.log.note import MAX_NOTE_BYTES, NoteKey, SignatureKind, SignedNote
from ledger.office import Office
from ledger.params import Params
from ledger.schema_closing import checkpoint, cosignature

__all__ = ["COSIGNING_OPERATIONS", "MAX_WITNESSES", "log_cosign", "read_witnesses"]

MAX_WITNESSES = 32  # known to one ledger; so many lines are added to a checkpoint
_MAX_FILE_BYTES = 1 << 16


def read_witnesses(folder: LedgerFolder) -> tuple[NoteKey, ...]:
    """Return the witnesses that the operator knows.

    Raises:
        OperationRefused: the file has too many, or a line that is no witness's key.
        StoreUnavailable: the file cannot be read.
    """
    path = folder.witnesses
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_FILE_BYTES + 1)
        lines = raw.decode().splitlines()
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as exc:
        raise StoreUnavailable(f"{path}: cannot be read") from exc
    named = [line.strip() for line in lines if line.strip() and line[0] != "#"]
    if len(raw) > _MAX_FILE_BYTES or len(named) > MAX_WITNESSES:
        raise OperationRefused(f"{path} has more than {MAX_WITNESSES} witnesses")
    try:
        return tuple(map(_witness, named))
    except RemoteError as exc:
        raise OperationRefused(f"{path}: {exc}") from exc


def log_cosign(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Keep what witnesses say about a checkpoint.

    Args:
        office: where it works.
        params: `note`: the cosigned checkpoint's bytes, hex. `witness`: the verifier
            key of a witness that is known from now on.

    Returns:
        `size` of the log then, and `cosigners`: name, witness (hex), time_s, is_new.

    Raises:
        FormatRefused, KeyRefused: no note, or no witness's key.
        NotFound: this ledger has no such checkpoint.
        SignatureRefused: no known witness's line verifies.
        OperationRefused: there are too many witnesses.
    """
    reader = Params(params)
    raw = reader.raw("note", max_bytes=MAX_NOTE_BYTES)
    named = reader.text("witness", max_chars=1000, default="")
    reader.done()
    note = SignedNote.parse(raw)
    head = _own_head(office, note)
    known = list(read_witnesses(office.desk.folder))
    if named and (key := _witness(named)) not in known:
        known.append(key)
        if not _lines_of(note, [key]):
            raise SignatureRefused(f"no cosignature of {key.name} verifies")
        _write_witnesses(office.desk.folder, known)
    cosigners = _lines_of(note, known)
    if not cosigners:
        raise SignatureRefused(
            "the checkpoint has no cosignature of a known witness: name its key"
        )
    fresh = _keep(office, head.size, cosigners)
    return {
        "size": head.size,
        "cosigners": [
            {
                "name": each.name,
                "witness": each.key.hex(),
                "time_s": each.time_s,
                "is_new": each in fresh,
            }
            for each in cosigners
        ],
    }


COSIGNING_OPERATIONS = {"log.cosign": log_cosign}


def _own_head(office: Office, note: SignedNote) -> Checkpoint:
    head = Checkpoint.parse(note.text)
    raw = office.connection.execute(
        select(checkpoint.c.note).where(checkpoint.c.size == head.size)
    ).scalar_one_or_none()
    if raw is None or SignedNote.parse(raw).text != note.text:
        raise NotFound(f"this ledger signed no such checkpoint of {head.size} entries")
    return head


def _keep(office: Office, size: int, cosigners: Sequence[Cosigner]) -> list[Cosigner]:
    """Keep what is not kept yet; return it."""
    stored = set(
        office.connection.execute(
            select(cosignature.c.witness).where(cosignature.c.size == size)
        ).scalars()
    )
    fresh = [each for each in cosigners if each.key not in stored]
    rows = [
        {
            "size": size,
            "witness": each.key,
            "line": each.line,
            "posted_us": office.now_us,
        }
        for each in fresh
    ]
    if rows:
        office.connection.execute(insert(cosignature), rows)
    return fresh


def _lines_of(note: SignedNote, known: Sequence[NoteKey]) -> list[Cosigner]:
    names = {key.key: key.name for key in known}
    found = cosigners_of(note, names)
    return [each for each in found if each.name == names[each.key]]


def _witness(text: str) -> NoteKey:
    key = NoteKey.parse(text)
    if key.kind != SignatureKind.COSIGNATURE:
        raise FormatRefused(f"{key.name} is no witness's key")
    return key


def _write_witnesses(folder: LedgerFolder, known: Sequence[NoteKey]) -> None:
    if len(known) > MAX_WITNESSES:
        raise OperationRefused(f"more than {MAX_WITNESSES} witnesses")
    text = "".join(f"{key.text}\n" for key in known)
    path = folder.witnesses
    try:
        write_whole(path, text.encode())
    except OSError as exc:
        raise StoreUnavailable(f"{path}: {exc.strerror}") from exc
