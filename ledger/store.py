"""The store: a ledger's folder, opened by the one process that writes it.

Contract: every method that writes returns a future that resolves only after the commit
is on the disk; callers on any thread. Signatures are checked on the caller's side of
the queue, so that threads share that work. Reading goes through `ledger.database`'s
`Reader`, never through here. Closing finishes what was accepted.
"""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypeVar

from ledger.beacon_draw import Cast, cast_beacon
from ledger.beacon_rows import Audited
from ledger.beacon_verdicts import Finding, decide_audit
from ledger.claims import (
    Filed,
    FiledStatus,
    GrantOrder,
    IssuedGrant,
    Refusal,
    verify_claim,
)
from ledger.database import (
    FolderLock,
    LedgerFolder,
    LedgerIdentity,
    Reader,
    open_writing_engine,
)
from ledger.desk import Desk
from ledger.errors import LedgerError, StoreUnavailable
from ledger.filings import file_claim
from ledger.latest import latest_us
from ledger.log.publisher import Publisher, refuse_older_database
from ledger.office import Office
from ledger.operations import run_operation
from ledger.policies import ensure_policy
from ledger.policy import Policy
from ledger.retention import RetentionReport, retain
from ledger.settlement import GrantPolicy, fund, issue_grant, release_expired
from ledger.standby_booking import BookedStandby, submit_standby
from ledger.tending import Tended, patience_us, tend
from ledger.voucher import SignedVoucher, voucher_hash
from ledger.writer import Writer, WriterSettings

__all__ = ["Store", "StoreSettings"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The operator's choices."""

    policy: GrantPolicy = field(default_factory=GrantPolicy)
    terms: Policy = field(default_factory=Policy)  # of a new ledger; later by command
    writer: WriterSettings = field(default_factory=WriterSettings)


class Store:
    """The writing side of a ledger."""

    def __init__(
        self,
        path: Path,
        owner: LedgerIdentity,
        *,
        sign: Callable[[bytes], bytes],
        wall_us: Callable[[], int],
        settings: StoreSettings | None = None,
    ) -> None:
        """Open or create a ledger's folder for writing.

        Args:
            path: the folder.
            owner: network, ledger and market keys; must match an existing folder.
            sign: makes the ledger's Ed25519 signature over given bytes.
            wall_us: microseconds since 1970 UTC.
            settings: policy and grouping.

        Raises:
            FolderInUse, StoreUnavailable, DifferenceFound: see there.
        """
        settings = settings or StoreSettings()
        self.folder = LedgerFolder(path)
        self.owner = owner
        self._sign = sign
        self._wall_us = wall_us
        self._tending = threading.Lock()  # one publisher at a time
        self._is_closing = False
        self._publisher: Publisher | None = None
        self._lock = FolderLock(self.folder.lock)
        try:
            self._engine = open_writing_engine(self.folder, owner)
            try:
                refuse_older_database(self.reader())
                self._policy = self._patient(settings.policy)
                self._writer = Writer(
                    self._engine, self.folder, owner, wall_us, settings.writer
                )
            except LedgerError:
                self._engine.dispose()
                raise
        except LedgerError:
            self._lock.release()
            raise
        terms = settings.terms
        try:
            self._writer.submit(lambda desk: ensure_policy(desk, terms, sign)).result()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """Return the store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    def reader(self) -> Reader:
        """Return a read-only view of the same folder."""
        return Reader(self.folder.path)

    def fund(self, owner: bytes, amount_uc: int, note: str) -> Future[bool]:
        """Give credit to a backbone, once for each note; False for a repeat."""
        return self._writer.submit(lambda desk: fund(desk, owner, amount_uc, note))

    def grant(self, order: GrantOrder) -> Future[IssuedGrant]:
        """Reserve money and sign a grant; see `ledger.settlement.issue_grant`."""
        return self._writer.submit(
            lambda desk: issue_grant(desk, order, self._policy, self._sign)
        )

    def file(
        self, signed: SignedVoucher, leaves: bytes, filed_by: bytes
    ) -> Future[Filed]:
        """Take a doubly signed voucher and the leaves not filed before.

        Resolves to the answer; a refused voucher is an answer, not an error.
        """
        checked = verify_claim(signed, leaves, filed_by)
        if isinstance(checked, Refusal):
            refusal = checked
            return self._writer.submit(lambda desk: _refuse(desk, refusal))
        claim = checked
        return self._writer.submit(
            lambda desk: file_claim(desk, claim), claim.content_hash
        )

    def book_standby(self, raw: bytes, signature: bytes) -> Future[BookedStandby]:
        """Book a STANDBY paper of the market, once; see `ledger.standby_booking`.

        Raises:
            RemoteError: it is no paper that the market signed.
        """
        return submit_standby(self._writer.submit, raw, signature, self.owner.market)

    def release_expired(self) -> Future[int]:
        """Give back what is left of expired grants; resolves to how many."""
        return self._writer.submit(lambda desk: release_expired(desk, self._policy))

    def tend(self) -> Tended:
        """Do everything that is due by now, then publish what closed; blocks.

        Grants are released, keys closed, vouchers and holdbacks settled, job by job,
        so that filings find their turn in between. Called every few seconds, from any
        thread; closing the store waits for the job at hand.

        Returns:
            How much was done in all.

        Raises:
            LedgerError: a job failed, or the log cannot be published (DifferenceFound:
                it is not what was signed); what was done before stays done.
        """
        with self._tending:
            total = Tended(is_done=False)
            while not (total.is_done or self._is_closing):
                part = self._writer.submit(lambda desk: tend(desk, self._policy))
                total = total.plus(part.result())
            if not self._is_closing:
                self._publisher = self._publisher or Publisher(
                    self.reader(), self._sign
                )
                self._publisher.publish(self._submit)
            return total

    def retain(self) -> RetentionReport:
        """Pack and prune leaf files as the policy has it; blocks, for seconds.

        Raises:
            LedgerError, OSError: a file or the database refused; nothing is lost.
        """
        with self._tending:
            if self._is_closing:
                return RetentionReport()
            return retain(self.folder, self._submit, self._wall_us())

    def cast_beacon(self) -> Future[Cast]:
        """Draw from what was filed since the last beacon; see `ledger.beacon_draw`."""
        return self._writer.submit(lambda desk: cast_beacon(desk, self._sign))

    def decide_audit(self, finding: Finding) -> Future[Audited | None]:
        """Write down what an audit came to; resolves to None if it was decided."""
        return self._writer.submit(lambda desk: decide_audit(desk, finding))

    def operate(
        self, name: str, params: Mapping[str, object]
    ) -> Future[Mapping[str, object]]:
        """Run a named operation; see `ledger.operations`."""

        def job(desk: Desk) -> Mapping[str, object]:
            office = Office(desk=desk, sign=self._sign, policy=self._policy)
            return run_operation(office, name, params)

        return self._writer.submit(job)

    def _patient(self, policy: GrantPolicy) -> GrantPolicy:
        """Return the policy of a ledger that may have been away for long."""
        with self.reader().session() as connection:
            until_us = patience_us(latest_us(connection), self._wall_us())
        return replace(policy, patient_until_us=until_us)

    def close(self) -> None:
        """Finish what is queued, close the files and give the folder back."""
        self._is_closing = True
        with self._tending:
            self._writer.close()
        self._engine.dispose()
        self._lock.release()

    def _submit(self, job: Callable[[Desk], T]) -> Future[T]:
        """Queue a job of a long chore, which ends here once the store is closing."""
        if self._is_closing:
            raise StoreUnavailable("the ledger is closed")
        return self._writer.submit(job)


def _refuse(desk: Desk, refusal: Refusal) -> Filed:
    desk.reject(refusal)
    return Filed(
        voucher_hash=voucher_hash(refusal.signed.raw),
        status=FiledStatus.REJECTED,
        reason=refusal.reason,
        detail=refusal.detail,
    )
