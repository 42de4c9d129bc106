"""Beacon audits over the node: draw, ask, decide, and tell the market.

One task draws every few seconds and repeats what was not answered; answers come from
the service's reader (`take`). What was found is written before anybody hears of it, and
a conviction is told to the market again at the start and now and then for a day: it
takes each once. A store that refuses puts everything off; nothing here ends the
service. What is asked of whom is decided in `questions.py`.
"""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

import trio

from ledger.beacon_rows import Audited, OpenAudit, failed_since, open_audits
from ledger.beacon_verdicts import Finding
from ledger.beacon_words import AuditState
from ledger.database import Reader
from ledger.errors import LedgerError, StoreBusy, StoreUnavailable
from ledger.store import Store
from mobile_worker.messages.audits import CheckOutcome, Opened, Recomputed, Verdict
from mobile_worker.messages.codec import Message
from p2pmoe.ledgerd.questions import Act, Ask, Questions
from relay.keys import PeerId, short_id

__all__ = ["Auditor"]

_LOG = logging.getLogger("p2pmoe.ledgerd")
DRAW_EVERY_S = 2.0
REPEAT_EVERY_S = 600.0
_DAY_US = 86_400_000_000
_MAX_REPEATED = 256
_MAX_FINDINGS = 20_000  # that wait for the store; others are taken up by the next run
_MAX_AT_ONCE = 256  # in one commit
T = TypeVar("T")
_OUTCOMES = {
    AuditState.PASSED: CheckOutcome.PASSED,
    AuditState.FAILED: CheckOutcome.FAILED,
}


class Auditor:
    """Looks again at servings that the beacon chose."""

    def __init__(self, store: Store, send: Callable[[PeerId, Message], None]) -> None:
        """Take a store, which the caller closes, and what queues a message."""
        self._store = store
        self._send = send
        self._market = PeerId(store.owner.market)
        self._questions = Questions(self._market)
        self._found, self._findings = trio.open_memory_channel[Finding](_MAX_FINDINGS)
        self._reader: Reader | None = None
        self._repeat_at = 0.0
        self._now_us = 0

    def take(self, peer: PeerId, message: Message) -> bool:
        """Take a message if it is an answer to an audit; say whether it was one."""
        now = trio.current_time()
        if isinstance(message, Opened):
            self._act(self._questions.opened(peer, message, now))
            return True
        if isinstance(message, Recomputed):
            if peer == self._market:
                self._act(self._questions.recomputed(message, now))
            return True
        return False

    async def run(self) -> None:
        """Draw and ask until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._decide)
            first_id = 0  # what an earlier run drew is taken up
            while True:
                try:
                    first_id = await self._round(first_id)
                except (LedgerError, OSError) as error:
                    _LOG.warning("audits are put off: %s", error)
                except Exception:  # noqa: BLE001  a bug here must not end the serving
                    _LOG.exception("a round of audits failed")
                await trio.sleep(DRAW_EVERY_S)

    async def _round(self, from_id: int) -> int:
        """Draw, ask what is due; return the first audit of the next round."""
        is_done = False
        while not is_done:
            cast = await _result(self._store.cast_beacon())
            self._now_us, is_done = cast.now_us, cast.is_done
        drawn = await _in_thread(lambda: self._open_audits(from_id))
        now = trio.current_time()
        self._act(self._questions.add(drawn, self._now_us, now))
        self._act(self._questions.due(now))
        if now >= self._repeat_at:
            await self._repeat()
            self._repeat_at = now + REPEAT_EVERY_S
        return drawn[-1].id + 1 if drawn else from_id

    async def _repeat(self) -> None:
        """Tell the market of a day's convictions: it takes each once."""
        for audited in await _in_thread(self._convictions_of_a_day):
            self._tell(audited)

    async def _decide(self) -> None:
        """Write down what was found, then tell the market."""
        async for first in self._findings:
            findings = [first]
            with suppress(trio.WouldBlock):
                while len(findings) < _MAX_AT_ONCE:
                    findings.append(self._findings.receive_nowait())
            while findings:
                findings = await self._write(findings)
                if findings:
                    await trio.sleep(DRAW_EVERY_S)

    async def _write(self, findings: list[Finding]) -> list[Finding]:
        """Write findings in one commit; return those that are to be tried again."""
        # All are handed over before the first is waited for.
        futures = [(each, self._handed_over(each)) for each in findings]
        return [
            finding
            for finding, future in futures
            if future is None or not await self._is_done(finding, future)
        ]

    def _handed_over(self, finding: Finding) -> Future[Audited | None] | None:
        """Give a finding to the store; None if it has no room now."""
        try:
            return self._store.decide_audit(finding)
        except (StoreBusy, StoreUnavailable) as error:
            _LOG.warning("audit %d is decided later: %s", finding.audit, error)
            return None

    async def _is_done(self, finding: Finding, future: Future[Audited | None]) -> bool:
        """Wait for the commit and tell of it; False if it is to be tried again."""
        try:
            audited = await _result(future)
        except (StoreBusy, StoreUnavailable):
            return False
        except LedgerError as error:
            _LOG.error("audit %d is not decided: %s", finding.audit, error)
        except Exception:  # noqa: BLE001  a bug here must not end the serving
            _LOG.exception("audit %d is not decided", finding.audit)
        else:
            if audited is not None:
                _log_outcome(audited)
                self._tell(audited)
        return True

    def _open_audits(self, from_id: int) -> list[OpenAudit]:
        with self._books().session() as connection:
            return open_audits(connection, from_id=from_id)

    def _convictions_of_a_day(self) -> list[Audited]:
        with self._books().session() as connection:
            return failed_since(connection, self._now_us - _DAY_US, _MAX_REPEATED)

    def _books(self) -> Reader:
        self._reader = self._reader or self._store.reader()
        return self._reader

    def _act(self, acts: Sequence[Act]) -> None:
        for act in acts:
            if isinstance(act, Ask):
                self._send(act.peer, act.message)
                continue
            try:
                self._found.send_nowait(act)
            except trio.WouldBlock:
                _LOG.warning("audit %d stays open: too many wait", act.audit)

    def _tell(self, audited: Audited) -> None:
        outcome = _OUTCOMES.get(audited.state)
        if outcome is None:
            return
        referees = b"".join(word.referee for word in audited.words)
        self._send(
            self._market,
            Verdict(
                worker=PeerId(audited.worker),
                backbone=PeerId(audited.backbone),
                voucher_hash=audited.voucher_hash,
                serving=audited.leaf.serving,
                outcome=int(outcome),
                referees=referees,
            ),
        )


async def _result(future: Future[T]) -> T:
    return await _in_thread(future.result)


async def _in_thread(job: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(job, abandon_on_cancel=True)


def _log_outcome(audited: Audited) -> None:
    if audited.state is AuditState.FAILED:
        _LOG.warning(
            "audit %d: worker %s gave wrong results in serving %d of tab %s",
            audited.id,
            short_id(audited.worker),
            audited.leaf.serving,
            audited.leaf.tab.hex(),
        )
    elif audited.state is AuditState.UNOPENED:
        _LOG.info(
            "audit %d: backbone %s did not show the rows: %s",
            audited.id,
            short_id(audited.backbone),
            audited.detail,
        )
