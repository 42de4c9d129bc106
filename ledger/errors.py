"""Every error the ledger raises, one tree.

Contract: `LedgerError` is the root. `LocalError` means that our caller or this machine
broke a rule; `RemoteError` means that bytes from someone else did, and carries who
(`peer`, the 32-byte key, where it is known). Messages are lower case and name the
offending value; `advice` is one sentence for people; the command line prints both in
one line and exits with `exit_code`.

    LedgerError
      LocalError
        StoreUnavailable     the data folder cannot be used (full, read-only, missing)
          NoLedger           there is no ledger in the folder
          DatabaseUrlRefused  `database.url` names nothing that can be used
          TargetNotEmpty     where to copy or restore to there is something already
          BackupRefused      a backup that is not whole, or none at all
        StoreBusy            a write did not get through in time; may be retried
        FolderInUse          another process writes this folder
        TransferConflict     one transfer id, two different bodies
        InsufficientFunds    an account would go below zero
        NotFound             no such account, tab, serving or grant
          LeavesPruned       the leaves asked for were pruned by the policy
        LogUnavailable       the log's files cannot be read, or not where they should be
        PeriodRefused        a period that cannot be read
        OperationRefused     a writing command that does not exist, or not so
        PayoutRefused        a step that a payout's state does not allow
        SpoolFull            the spool reached its bound
        SpoolCorrupt         a spool file is damaged before its end
        OutOfWindow          a tree insertion too far back; rebuild from the leaves
        DifferenceFound      a check re-derived something else (exit code 1)
      RemoteError
        FormatRefused        bytes that do not parse, or are not canonical
        KeyRefused           a weak, non-canonical or off-curve public key
        SignatureRefused     a signature that does not verify
        AmountRefused        an amount or price that does not add up
        ProofRefused         a path that does not lead to the root
        ChainRefused         a voucher that does not extend the one before it
        ClosedRefused        a voucher of a tab that is closed
        EquivocationFound    one signer, one number, two different vouchers
        LogRefused           a log that went back or shows another past (exit code 1)
        DisputeRefused       a claim or answer that is not taken, or comes too late
        GrantRefused         a grant that does not cover what is claimed
          CeilingReached     more is claimed than the grant reserved
        StandbyRefused       a STANDBY paper that is never booked
          PotEmpty           the standby pot, or what may be given, is too small now
"""

__all__ = [
    "AmountRefused",
    "BackupRefused",
    "CeilingReached",
    "ChainRefused",
    "ClosedRefused",
    "DatabaseUrlRefused",
    "DifferenceFound",
    "DisputeRefused",
    "EquivocationFound",
    "FolderInUse",
    "FormatRefused",
    "GrantRefused",
    "InsufficientFunds",
    "KeyRefused",
    "LeavesPruned",
    "LedgerError",
    "LocalError",
    "LogRefused",
    "LogUnavailable",
    "NoLedger",
    "NotFound",
    "OperationRefused",
    "OutOfWindow",
    "PayoutRefused",
    "PeriodRefused",
    "PotEmpty",
    "ProofRefused",
    "RemoteError",
    "SignatureRefused",
    "SpoolCorrupt",
    "SpoolFull",
    "StandbyRefused",
    "StoreBusy",
    "StoreUnavailable",
    "TargetNotEmpty",
    "TransferConflict",
]


class LedgerError(Exception):
    """Root of the tree; `advice` says what a person can do about it."""

    advice: str = ""
    exit_code: int = 2


class LocalError(LedgerError):
    """Our caller or this machine broke a rule."""


class RemoteError(LedgerError):
    """Bytes made by someone else broke a rule."""

    def __init__(self, message: str, *, peer: bytes | None = None) -> None:
        """Keep the message and, where known, the 32-byte key of who did it."""
        super().__init__(message)
        self.peer = peer


class StoreUnavailable(LocalError):
    """The data folder cannot be used; nothing that was acknowledged is lost."""

    advice = "Check free space and permissions of the data folder, then start again."


class DatabaseUrlRefused(StoreUnavailable):
    """A database URL that cannot be used; its text is not repeated."""

    advice = "Write one line: postgresql://USER@HOST/DATABASE, the file with mode 600."


class TargetNotEmpty(StoreUnavailable):
    """Where to copy or restore to, there is something already."""

    advice = "Name a new place: nothing is ever written over."


class BackupRefused(StoreUnavailable):
    """A backup that is damaged, not whole, or no backup at all."""

    advice = "Take another backup; this one cannot be restored."


class NoLedger(StoreUnavailable):
    """There is no ledger in the folder."""

    advice = "Name the ledger's folder with --data."


class StoreBusy(LocalError):
    """A write waited too long; it was not acknowledged and may be sent again."""

    advice = "Try again in a moment."


class FolderInUse(LocalError):
    """Another process is writing this data folder."""

    advice = "Stop the other process or choose another --data folder."


class TransferConflict(LocalError):
    """One business key was used for two different transfers."""


class InsufficientFunds(LocalError):
    """An account would go below zero."""

    advice = "Lower the ceiling or add credit to the account."


class NotFound(LocalError):
    """There is no such account, tab, serving, grant or file."""


class LeavesPruned(NotFound):
    """The leaves asked for were pruned; their voucher's root and sums remain."""

    advice = "The policy says how long leaves are kept: p2pmoe ledger policy show."


class LogUnavailable(LocalError):
    """The log's checkpoint or tiles cannot be read."""

    advice = (
        "Check the address or folder of the log, then try again; "
        "what signs its certificate is named with --ca."
    )


class PeriodRefused(LocalError):
    """A period that cannot be read."""

    advice = "Write 2026, 2026-11, 2026-11-30 or 2026-11-01..2026-11-15 (UTC)."


class OperationRefused(LocalError):
    """A writing command that does not exist, or not with these parameters."""


class PayoutRefused(LocalError):
    """A step that a payout's state does not allow."""

    advice = "See `p2pmoe ledger payout list`."


class SpoolFull(LocalError):
    """The spool reached its bound: what is in it must be delivered first."""

    advice = "The ledger has been out of reach for long: check the connection."


class SpoolCorrupt(LocalError):
    """A spool file is damaged somewhere before its end."""

    advice = "Move the named file aside and keep it: it may hold unpaid vouchers."


class OutOfWindow(LocalError):
    """A leaf belongs before the part of the tree that is kept in memory."""


class DifferenceFound(LocalError):
    """A check re-derived something else than what is stored."""

    exit_code = 1


class FormatRefused(RemoteError):
    """Bytes that do not parse, are out of bounds, or are not canonical."""


class KeyRefused(RemoteError):
    """A weak, non-canonical or off-curve public key."""


class SignatureRefused(RemoteError):
    """A signature that does not verify under the key that should have made it."""


class AmountRefused(RemoteError):
    """An amount, price or sum that does not add up or is out of bounds."""


class ProofRefused(RemoteError):
    """An inclusion path that does not lead to the root."""


class ChainRefused(RemoteError):
    """A voucher that does not extend the one before it, or not these leaves."""


class ClosedRefused(RemoteError):
    """A voucher of a key that is closed: nothing is added to it any more."""


class EquivocationFound(RemoteError):
    """One signer, same key and number, different bytes."""


class DisputeRefused(RemoteError):
    """A dispute's claim, answer or judgement that is not taken."""

    advice = "See where it stands: p2pmoe ledger dispute list."


class LogRefused(RemoteError):
    """A log that went back, or whose past is not the one that was seen before."""

    advice = "Keep the state folder: it holds both checkpoints, which prove it."
    exit_code = 1


class GrantRefused(RemoteError):
    """A grant that is unknown, closed, or does not cover what is claimed."""


class CeilingReached(GrantRefused):
    """More is claimed under a grant than was reserved for it."""


class StandbyRefused(RemoteError):
    """A STANDBY paper of another network, of another time, or of an epoch once more."""


class PotEmpty(StandbyRefused):
    """A STANDBY paper of more than the pot holds, or than the policy lets it give."""

    advice = (
        "Fill the pot with `p2pmoe ledger standby fund`, set the most of one epoch "
        "with `p2pmoe ledger policy set --standby`."
    )
