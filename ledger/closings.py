"""The desk's drawer of closed vouchers and of the policies they closed under.

Contract: reads what is committed plus what this group decided; collects its writes in
the group's `Rows`. A state is changed only through `change`, so that later reads of the
group see it. It knows no rules of value: those are in `ledger.closing` and
`ledger.holdback`. Only the writer's thread touches this.
"""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, Select, exists, func, select

from ledger.database import highest
from ledger.experts import ExpertSum
from ledger.policy import Policy
from ledger.rows import Rows
from ledger.schema import filing, grant, voucher
from ledger.schema_closing import closing, policy

__all__ = ["ClosedState", "ClosingState", "Closings", "HoldbackState"]

_MAX_OPEN = 50_000  # keys remembered as not closed


class ClosedState(StrEnum):
    """Where a closed voucher's net amount stands."""

    CLOSED = "closed"  # in worker_pending, in its dispute window
    DISPUTED = "disputed"  # in worker_pending, until the dispute is decided
    RELEASED = "released"  # moved to worker_available
    REVERSED = "reversed"  # moved back to the backbone


class HoldbackState(StrEnum):
    """Where a closed voucher's holdback stands."""

    NONE = "none"
    HELD = "held"
    RELEASED = "released"
    FORFEITED = "forfeited"


@dataclass(slots=True, kw_only=True)
class ClosingState:
    """One closed voucher; `amount_uc = fee_uc + held_uc + net_uc`."""

    voucher_id: int
    content_hash: bytes  # [32] of the voucher that closed the key
    worker: bytes  # [32]
    backbone: bytes  # [32]
    policy_hash: bytes  # [32]
    amount_uc: int
    fee_uc: int
    held_uc: int
    net_uc: int
    closed_us: int
    release_due_us: int
    holdback_due_us: int
    state: ClosedState = ClosedState.CLOSED
    released_us: int | None = None
    holdback: HoldbackState = HoldbackState.NONE
    holdback_us: int | None = None


class Closings:
    """Closed vouchers and policies, as the one writer sees them."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        """Read where the log's numbering stands and which policy holds."""
        self._connection = connection
        self._rows = rows
        last = connection.execute(select(func.max(closing.c.log_index))).scalar_one()
        self._next_index = 0 if last is None else last + 1
        self._group: dict[int, ClosingState] = {}
        # Keys of an earlier program may lack a closing: these are looked through once.
        self._unseen = range(1, highest(connection, voucher.c.id) + 1)
        self._open: set[int] = set()  # asked for and not closed: a key closes only here
        self._policy: Policy | None = None
        self.policy_hash = b""  # of the policy for what closes now
        newest = connection.execute(
            select(policy).order_by(policy.c.seq.desc()).limit(1)
        ).one_or_none()
        self._next_policy = 1
        if newest is not None:
            self._policy = Policy.parse(newest.raw)
            self.policy_hash = newest.hash
            self._next_policy = newest.seq + 1

    @property
    def policy(self) -> Policy | None:
        """The policy for what closes now; None before the first was set."""
        return self._policy

    def set_policy(self, new: Policy, signature: bytes, now_us: int) -> None:
        """Append a signed policy; it holds from now on."""
        self._policy, self.policy_hash = new, new.content_hash
        self._rows.policies.append(
            {
                "seq": self._next_policy,
                "hash": new.content_hash,
                "raw": new.pack(),
                "signature": signature,
                "posted_us": now_us,
            }
        )
        self._next_policy += 1

    def add(
        self,
        state: ClosingState,
        *,
        entry_hash: bytes,
        account_id: int,
        experts: list[ExpertSum],
    ) -> int:
        """Keep a newly closed voucher; return its place in the log."""
        log_index = self._next_index
        self._next_index += 1
        self._group[state.voucher_id] = state
        self._open.discard(state.voucher_id)
        self._rows.new_closings[state.voucher_id] = {
            "voucher_id": state.voucher_id,
            "content_hash": state.content_hash,
            "log_index": log_index,
            "entry_hash": entry_hash,
            "policy_hash": state.policy_hash,
            "worker_account": account_id,
            "amount_uc": state.amount_uc,
            "fee_uc": state.fee_uc,
            "held_uc": state.held_uc,
            "net_uc": state.net_uc,
            "closed_us": state.closed_us,
            "release_due_us": state.release_due_us,
            "state": state.state.value,
            "released_us": state.released_us,
            "holdback": state.holdback.value,
            "holdback_due_us": state.holdback_due_us,
            "holdback_us": state.holdback_us,
        }
        self._rows.experts += [
            {
                "voucher_id": state.voucher_id,
                "layer": one.layer,
                "expert": one.expert,
                "servings": one.servings,
                "rows": one.rows,
                "amount_uc": one.amount_uc,
            }
            for one in experts
        ]
        return log_index

    def find(self, voucher_id: int) -> ClosingState | None:
        """Return what became of a key's voucher, or None while the key is open."""
        if voucher_id in self._open:
            return None
        found = self._group.get(voucher_id)
        if found is not None:
            return found
        states = self._read(closing.c.voucher_id == voucher_id)
        if not states:
            if len(self._open) >= _MAX_OPEN:
                self._open.clear()
            self._open.add(voucher_id)
        return states[0] if states else None

    def release_due(self, now_us: int, limit: int) -> list[ClosingState]:
        """Return undisputed closings whose window is over, the oldest first."""
        due = (closing.c.state == "closed") & (closing.c.release_due_us <= now_us)
        states = self._read(due, closing.c.release_due_us, limit)
        return [state for state in states if state.state == ClosedState.CLOSED]

    def holdback_due(self, now_us: int, limit: int) -> list[ClosingState]:
        """Return closings whose holdback's time is over, the oldest first."""
        due = (
            (closing.c.holdback == "held")
            & (closing.c.holdback_due_us <= now_us)
            & (closing.c.state != "disputed")
        )
        states = self._read(due, closing.c.holdback_due_us, limit)
        return [
            state
            for state in states
            if state.holdback == HoldbackState.HELD
            and state.state != ClosedState.DISPUTED
        ]

    def held_of(self, worker: bytes) -> list[ClosingState]:
        """Return a worker's closings with a holdback that is still held."""
        held = (closing.c.holdback == "held") & (voucher.c.worker == worker)
        states = {state.voucher_id: state for state in self._read(held)}
        states |= {
            number: state
            for number, state in self._group.items()
            if state.worker == worker
        }
        return [s for s in states.values() if s.holdback == HoldbackState.HELD]

    def unclosed_of(self, worker: bytes, backbone: bytes) -> list[int]:
        """Return the keys of a pair that should be closed; reads what is written."""
        of_pair = (voucher.c.worker == worker) & (voucher.c.backbone == backbone)
        return self._ids(_UNCLOSED.where(of_pair))

    def next_unclosed(self, n_keys: int) -> list[int]:
        """Return which of the next so many keys should be closed; reads as above."""
        keys, self._unseen = self._unseen[:n_keys], self._unseen[n_keys:]
        if not keys:
            return []
        seen = voucher.c.id.between(keys[0], keys[-1])
        return self._ids(_UNCLOSED.where(seen))

    @property
    def has_seen_all(self) -> bool:
        """Whether `next_unclosed` went through all keys."""
        return not self._unseen

    def change(self, state: ClosingState) -> None:
        """Note that a state's `state`, `holdback` or their instants were changed."""
        self._group[state.voucher_id] = state
        self._rows.change_closing(
            state.voucher_id,
            {
                "state": state.state.value,
                "released_us": state.released_us,
                "holdback": state.holdback.value,
                "holdback_us": state.holdback_us,
            },
        )

    def written(self) -> None:
        """Forget what only this group knew: the database has it now."""
        self._group.clear()

    def _ids(self, statement: Select[int]) -> list[int]:
        return list(self._connection.execute(statement).scalars())

    def _read(
        self,
        condition: ColumnElement[bool],
        order: ColumnElement[int] = closing.c.voucher_id,
        limit: int | None = None,
    ) -> list[ClosingState]:
        statement = (
            select(closing, voucher.c.worker, voucher.c.backbone)
            .join(voucher, voucher.c.id == closing.c.voucher_id)
            .where(condition)
            .order_by(order)
            .limit(limit)
        )
        return [
            self._group.get(row.voucher_id)
            or ClosingState(
                voucher_id=row.voucher_id,
                content_hash=row.content_hash,
                worker=row.worker,
                backbone=row.backbone,
                policy_hash=row.policy_hash,
                amount_uc=row.amount_uc,
                fee_uc=row.fee_uc,
                held_uc=row.held_uc,
                net_uc=row.net_uc,
                closed_us=row.closed_us,
                release_due_us=row.release_due_us,
                holdback_due_us=row.holdback_due_us,
                state=ClosedState(row.state),
                released_us=row.released_us,
                holdback=HoldbackState(row.holdback),
                holdback_us=row.holdback_us,
            )
            for row in self._connection.execute(statement)
        ]


# Keys without a closing that are final, or that no open grant covers any more.
_UNCLOSED = (
    select(voucher.c.id)
    .where(~exists().where(closing.c.voucher_id == voucher.c.id))
    .where(
        (voucher.c.final == 1)
        | ~exists()
        .where(filing.c.voucher_id == voucher.c.id)
        .where(filing.c.grant_hash == grant.c.hash, grant.c.state == "open")
    )
    .order_by(voucher.c.id)
)
