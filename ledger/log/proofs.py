"""The proof that a closed voucher is in the log, as it travels in a receipt.

Contract: two members of a receipt's `proofs`, both or none:

    "log_inclusion": {"index": "12", "policy_hash": hex, "path": [hex, ...]}
    "checkpoint": the signed note's text, with what witnesses added

The entry itself is not repeated: it is made anew from the receipt's voucher, both its
signatures and the policy's hash, so the proof can be of nothing else. Pure.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ledger.errors import FormatRefused, ProofRefused
from ledger.keys import short
from ledger.log.checkpoint import (
    Checkpoint,
    Cosigner,
    cosigners_of,
    log_key,
    verify_checkpoint,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.note import MAX_NOTE_BYTES, SignedNote
from ledger.log.tree import verify_inclusion
from ledger.voucher import SignedVoucher

__all__ = ["LOG_PROOFS", "LogCheck", "LogProof"]

_INCLUSION, _CHECKPOINT = LOG_PROOFS = ("log_inclusion", "checkpoint")
_MEMBERS = {"index", "policy_hash", "path"}
_INDEX = re.compile(r"0|[1-9][0-9]{0,18}", re.ASCII)
_HASH = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MAX_PATH = 63


@dataclass(frozen=True, slots=True)
class LogCheck:
    """What a verified proof says."""

    index: int
    policy_hash: bytes  # [32]
    checkpoint: Checkpoint
    cosigners: tuple[Cosigner, ...]  # of the witnesses that were asked for


@dataclass(frozen=True, slots=True)
class LogProof:
    """Where a voucher is in the log, not yet checked."""

    index: int
    policy_hash: bytes  # [32]
    path: tuple[bytes, ...]  # siblings from the entry up
    note: SignedNote

    def to_members(self) -> dict[str, object]:
        """Return the members of a receipt's `proofs`."""
        inclusion = {
            "index": str(self.index),
            "policy_hash": self.policy_hash.hex(),
            "path": [step.hex() for step in self.path],
        }
        return {_INCLUSION: inclusion, _CHECKPOINT: self.note.pack().decode()}

    @staticmethod
    def from_members(proofs: Mapping[str, object]) -> "LogProof | None":
        """Read the proof out of a receipt's `proofs`; None if it has none.

        Raises:
            FormatRefused: half of it, or not in its one form.
        """
        inclusion, text = proofs.get(_INCLUSION), proofs.get(_CHECKPOINT)
        if inclusion is None and text is None:
            return None
        if not isinstance(inclusion, dict) or set(inclusion) != _MEMBERS:
            raise FormatRefused("receipt: log_inclusion has other members")
        index, path = inclusion["index"], inclusion["path"]
        if not isinstance(index, str) or _INDEX.fullmatch(index) is None:
            raise FormatRefused("receipt: log_inclusion.index is no number in a string")
        if not isinstance(path, list) or len(path) > _MAX_PATH:
            raise FormatRefused("receipt: log_inclusion.path is no path")
        if not isinstance(text, str) or len(text) > MAX_NOTE_BYTES:
            raise FormatRefused("receipt: checkpoint is no signed note")
        try:
            raw = text.encode()
        except UnicodeEncodeError as exc:
            raise FormatRefused("receipt: checkpoint is no UTF-8") from exc
        return LogProof(
            index=int(index),
            policy_hash=_hash(inclusion["policy_hash"]),
            path=tuple(map(_hash, path)),
            note=SignedNote.parse(raw),
        )

    def verify(
        self,
        signed: SignedVoucher,
        *,
        network: bytes,
        ledger: bytes,
        witnesses: Collection[bytes] = (),
    ) -> LogCheck:
        """Check that the log has this voucher, and that witnesses saw the log so.

        Args:
            signed: the voucher, whose signatures are checked elsewhere.
            network: 32-byte id, names the log.
            ledger: 32-byte id, signs the checkpoint.
            witnesses: 32-byte keys that must all have cosigned it.

        Raises:
            SignatureRefused, FormatRefused: no checkpoint of this log.
            ProofRefused: the log has another entry there, or a witness's line lacks.
        """
        head = verify_checkpoint(self.note, log_key(network, ledger))
        leaf = entry_hash(pack_entry(signed, self.policy_hash))
        verify_inclusion(leaf, self.index, head.size, self.path, head.root)
        cosigners = cosigners_of(self.note, witnesses)
        missing = set(witnesses) - {each.key for each in cosigners}
        if missing:
            names = ", ".join(sorted(map(short, missing)))
            raise ProofRefused(f"checkpoint is not cosigned by {names}")
        return LogCheck(self.index, self.policy_hash, head, cosigners)


def _hash(text: object) -> bytes:
    if not isinstance(text, str) or _HASH.fullmatch(text) is None:
        raise FormatRefused("receipt: a hash of log_inclusion is no lower-case hex")
    return bytes.fromhex(text)
