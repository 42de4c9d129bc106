"""What an operation is given: the writer's desk, the ledger's key, its terms.

Contract: an operation is a function that runs on the writer's thread, inside its open
transaction. It is named in `ledger.operations`, takes and returns JSON-able mappings,
reads its parameters by `ledger.params`, decides first and acts after: when it raises a
`LedgerError` nothing was changed. Before it runs, everything that its group collected
has been written into the transaction, so it may also read and write by `connection`;
what it posts to the book is written when it ends. It never commits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from ledger.desk import Desk
from ledger.settlement import GrantPolicy

__all__ = ["Office", "Operation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Where an operation works."""

    desk: Desk
    sign: Callable[[bytes], bytes]  # the ledger's Ed25519 signature over given bytes
    policy: GrantPolicy

    @property
    def connection(self) -> Connection:
        """The writer's open transaction."""
        return self.desk.connection

    @property
    def now_us(self) -> int:
        """The ledger's time, which never goes back."""
        return self.desk.now_us


Operation = Callable[[Office, Mapping[str, object]], Mapping[str, object]]
