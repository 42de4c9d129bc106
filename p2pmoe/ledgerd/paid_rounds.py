"""What was paid for, told to the market span by span.

Contract: a span is a whole minute of the ledger's time, at multiples of a minute. Each
round counts the spans that are over and were not counted, and sends those of the last
ten minutes, the oldest first: nothing acknowledges a PAID message, and the market takes
each span once, by its borders. Nothing is remembered on disk: after a restart, however
late, it begins ten minutes before the last filing, and the same spans are counted from
the same filings. A model without paid rows in a span gets no message, nor has a span
any whose leaves are damaged: the others are told all the same.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import trio

from ledger.errors import DifferenceFound, LedgerError, StoreUnavailable
from ledger.paid_demand import PaidRows, last_filed_us, paid_rows, paid_spans
from ledger.store import Store
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.audits import Paid
from mobile_worker.messages.codec import Message
from relay.keys import PeerId

if TYPE_CHECKING:
    from ledger.periods import Period

__all__ = ["PAID_SPAN_US", "PaidRounds"]

_LOG = logging.getLogger("p2pmoe.ledgerd")
PAID_SPAN_US = 60_000_000
_N_SPANS = 10  # so long a span is told again and again, in case one was lost
_MAX_ROWS = (1 << 32) - 1


class PaidRounds:
    """Tells the market of paid demand; `run` until cancelled."""

    def __init__(
        self,
        store: Store,
        market: PeerId,
        send: Callable[[PeerId, Message], None],
        span_us: int,
    ) -> None:
        """Take the store, whom to tell, how, and how long a span is."""
        self._store = store
        self._market = market
        self._send = send
        self._span_us = span_us
        self._counted: dict[Period, PaidRows] = {}  # those of the last ten minutes
        self._until_us: int | None = None  # told up to here; None at first

    async def run(self) -> None:
        """Count and tell, once a span."""
        while True:
            try:
                messages = await trio.to_thread.run_sync(
                    self.round, abandon_on_cancel=True
                )
            except StoreUnavailable as exc:
                _LOG.debug("paid demand not told: %s", exc)
            except (LedgerError, OSError) as exc:
                _LOG.warning("paid demand not told: %s", exc)
            except Exception:  # noqa: BLE001  a bug in a round must not end the serving
                _LOG.exception("a round of paid demand failed")
            else:
                for message in messages:
                    self._send(self._market, message)
            await trio.sleep(self._span_us / 1_000_000)

    def round(self) -> list[Paid]:
        """Count what is over, and return all that is to be told, in order; blocks.

        Raises:
            LedgerError, OSError: the books cannot be read.
        """
        now_us = self._now_us()
        reader = self._store.reader()
        with reader.session() as connection:
            until_us = self._until_us
            if until_us is None:
                until_us = last_filed_us(connection)
            since_us = max(0, min(until_us, now_us) - _N_SPANS * self._span_us)
            spans = paid_spans(connection, self._span_us, since_us, now_us)
            counted, count = (
                self._counted,
                partial(paid_rows, connection, reader.folder),
            )
            self._counted = {
                span: counted.get(span) or _count_or_leave_out(count, span)
                for span in spans
            }
        self._until_us = now_us
        return [
            Paid(
                manifest_hash=manifest_hash,
                from_us=span.start_us,
                to_us=span.end_us,
                counts=tuple(
                    (ExpertId(*expert), min(rows, _MAX_ROWS))
                    for expert, rows in counts.items()
                ),
            )
            for span, by_model in self._counted.items()
            for manifest_hash, counts in sorted(by_model.items())
        ]

    def _now_us(self) -> int:
        """Return the ledger's time: what it stores from now on is not before it."""
        now_us = self._store.operate("ping", {}).result()["now_us"]
        if not isinstance(now_us, int):
            raise TypeError(now_us)
        return now_us


def _count_or_leave_out(
    count: Callable[["Period"], PaidRows], span: "Period"
) -> PaidRows:
    try:
        return count(span)
    except DifferenceFound as exc:
        _LOG.error("a span of paid demand is left out: %s", exc)
        return {}
