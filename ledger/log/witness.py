"""A witness: sees every head of a log, and says so only if the log never went back.

Contract: it keeps, in a folder of its own, the largest head it ever cosigned of each
log. A head is cosigned when the log signed it, its tiles lead to its root, and it
contains the one seen before (a consistency proof, checked). The new head is on the
disk before the cosignature leaves. A smaller head, another root of one size, or a head
without a proof is `LogRefused`, and both signed heads are kept: two heads of one log
that do not fit convict it. Tiles that cannot be read convict nobody: that is
`LogUnavailable` or `FormatRefused`, and the witness looks again later.

One process uses a folder at a time (the witness's key file is locked by whoever loads
it). Specification: the checks of C2SP tlog-witness; here the witness fetches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ledger.errors import (
    LogRefused,
    LogUnavailable,
    ProofRefused,
    RemoteError,
    StoreUnavailable,
)
from ledger.folders import sync_folder
from ledger.log.checkpoint import Checkpoint, cosign, verify_checkpoint
from ledger.log.folder import LogReader, write_whole
from ledger.log.note import MAX_NOTE_BYTES, NoteKey, SignedNote
from ledger.log.tree import EMPTY_ROOT, verify_consistency

__all__ = ["Inspect", "Sighting", "Witness"]

# Looks at the entries from a size up to a head; see `ledger.log.inspection`.
Inspect = Callable[[LogReader, int, Checkpoint], object]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A head that the witness stands for."""

    checkpoint: Checkpoint
    note: SignedNote  # with the witness's line
    path: Path  # where the note lies
    is_new: bool  # False: it was seen and cosigned before


class Witness:
    """Looks at logs and remembers what it saw."""

    def __init__(
        self,
        folder: Path,
        key: NoteKey,
        sign: Callable[[bytes], bytes],
        wall_us: Callable[[], int],
        inspect: Inspect | None = None,
    ) -> None:
        """Keep state in `folder`, made if missing.

        Args:
            folder: the witness's own.
            key: its name and key.
            sign: makes its Ed25519 signature over given bytes.
            wall_us: microseconds since 1970 UTC.
            inspect: looks at the entries that came, before a head is cosigned.

        Raises:
            StoreUnavailable: the folder cannot be made.
        """
        self._folder = folder
        self._key = key
        self._sign = sign
        self._wall_us = wall_us
        self._inspect = inspect
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise StoreUnavailable(f"{folder}: {exc.strerror}") from exc

    @property
    def key(self) -> NoteKey:
        """The key that it cosigns with, by its public half and name."""
        return self._key

    def look(self, log: LogReader, log_key: NoteKey) -> Sighting:
        """Check the log's newest head against the last one seen, and cosign it.

        Args:
            log: the log's files.
            log_key: the key that must have signed the head; its name is the origin.

        Raises:
            SignatureRefused, FormatRefused: no head of this log.
            LogRefused: the log went back or shows another past; evidence is kept.
            LogUnavailable: it has no head yet, or its files cannot be read.
            StoreUnavailable: the witness's own folder cannot be read or written.
        """
        note = log.checkpoint()
        if note is None:
            raise LogUnavailable(f"{log_key.name[:80]} has no checkpoint yet")
        head = verify_checkpoint(note, log_key)
        path = self._path(log_key.name)
        last = self._read(path, log_key)
        if last is not None and last[0] == head:
            return Sighting(head, last[1], path, is_new=False)
        try:
            self._check(log, last[0] if last else None, head)
        except LogRefused:
            self._keep(head, note)
            raise
        cosigned = cosign(note, self._key, self._sign, self._wall_us() // 1_000_000)
        own = tuple(
            line
            for line in cosigned.signatures
            if log_key.made(line) or self._key.made(line)
        )
        cosigned = SignedNote(cosigned.text, own)
        self._write(path, cosigned.pack())
        return Sighting(head, cosigned, path, is_new=True)

    def _check(self, log: LogReader, last: Checkpoint | None, head: Checkpoint) -> None:
        size, root = (last.size, last.root) if last else (0, EMPTY_ROOT)
        if head.size < size:
            raise LogRefused(f"log of {head.size} entries; {size} were seen before")
        if head.size == size and last is not None:
            raise LogRefused(f"log shows a second root of {size} entries")
        try:
            proof = log.tree(head.size, head.root).consistency(size)
        except ProofRefused as exc:
            # a file that the disk or the way got wrong, not another past
            raise LogUnavailable(f"log: {exc}") from exc
        try:
            verify_consistency((size, root), (head.size, head.root), proof)
        except ProofRefused as exc:
            raise LogRefused(str(exc)) from exc
        if self._inspect is not None:
            self._inspect(log, size, head)

    def _path(self, origin: str) -> Path:
        return self._folder / f"{sha256(origin.encode()).hexdigest()[:16]}.note"

    def _read(
        self, path: Path, log_key: NoteKey
    ) -> tuple[Checkpoint, SignedNote] | None:
        try:
            with path.open("rb") as file:
                raw = file.read(MAX_NOTE_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise StoreUnavailable(f"{path}: {exc.strerror}") from exc
        try:
            note = SignedNote.parse(raw)
            return verify_checkpoint(note, log_key), note
        except RemoteError as exc:
            # what was seen must not be forgotten: no guess, no new start
            raise StoreUnavailable(f"{path} is damaged: {exc}") from exc

    def _keep(self, head: Checkpoint, note: SignedNote) -> None:
        """Keep a refused head beside the one it does not fit."""
        base = self._path(head.origin).stem
        name = f"{base}.refused-{head.size}-{head.root[:4].hex()}.note"
        self._write(self._folder / name, note.pack())

    def _write(self, path: Path, raw: bytes) -> None:
        try:
            write_whole(path, raw)
            sync_folder(self._folder)
        except OSError as exc:
            raise StoreUnavailable(f"{path}: {exc.strerror}") from exc
