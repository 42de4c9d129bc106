"""What an answer says of the worker that gave it.

`read` is the way from an OUTPUT to results, and notes against the worker what it did
wrong instead; `observe` takes the time of a valid answer in. Where the calls go that
got no results, and what is paid, is the dispatcher's.
"""

import logging

from mobile_worker.messages.serving import Output, OutputError
from p2pmoe.backbone.attempts import Attempt
from p2pmoe.backbone.cost import CallSample
from p2pmoe.backbone.exchange import Reason
from p2pmoe.backbone.flights import DispatcherParts
from p2pmoe.backbone.outputs import CallResult, read_output
from p2pmoe.backbone.path_times import Path
from p2pmoe.errors import OutputRefused
from relay.keys import PeerId

__all__ = ["Verdicts"]

log = logging.getLogger("p2pmoe.dispatcher")

MAX_REFUSED_ANSWERS = 3


class Verdicts:
    """Judges workers by their answers."""

    def __init__(self, parts: DispatcherParts) -> None:
        """Judge the workers of a dispatcher's fleet."""
        self._parts = parts
        self._fleet = parts.fleet

    def read(self, attempt: Attempt, output: Output) -> list[CallResult] | Reason:
        """Return an answer's results, in the order of its calls, or why there are none.

        A worker that met a non-finite value (ARITH) has done nothing wrong.
        """
        if output.error != OutputError.OK:
            return self._errored(attempt, OutputError(output.error))
        try:
            return read_output(attempt.shape, output, attempt.peer)
        except OutputRefused as error:
            log.warning("worker %s: %s", attempt.peer.hex()[:8], error)
            self._parts.counters.refused_outputs += 1
            self._fleet.workers[attempt.peer].n_refused += 1
            self._fleet.failed(attempt.peer, self._parts.clock(), weight=2)
            return Reason.REFUSED

    def is_hopeless(self, peer: PeerId) -> bool:
        """Whether so many of a worker's answers were refused that it is given up."""
        return self._fleet.workers[peer].n_refused >= MAX_REFUSED_ANSWERS

    def observe(self, attempt: Attempt, output: Output, n_bytes: int) -> None:
        """Take in how long a valid answer of `n_bytes` took; it clears the record."""
        self._fleet.succeeded(attempt.peer)
        elapsed_s = self._parts.clock() - attempt.sent_at
        self._parts.counters.times.add(Path(attempt.tier.value), elapsed_s)
        self._fleet.workers[attempt.peer].cost.observe(
            CallSample(
                elapsed_s=elapsed_s,
                compute_s=output.compute_us / 1e6,
                n_rows=attempt.n_rows,
                n_bytes=attempt.n_bytes_up + n_bytes,
            )
        )

    def _errored(self, attempt: Attempt, error: OutputError) -> Reason:
        peer, now = attempt.peer, self._parts.clock()
        if error is OutputError.ARITH:
            return Reason.ARITH
        log.warning("worker %s says %s", peer.hex()[:8], error.name)
        attempt.progress.failed_on(attempt.calls, peer)
        if error is OutputError.NOT_HELD:
            layer = attempt.progress.work.plan.layer
            self._fleet.not_held(peer, layer, [c.expert for c in attempt.calls])
        elif error is OutputError.NO_GRANT:
            self._parts.accounts.refused_for_grant(peer)
            self._fleet.failed(peer, now)
        elif error is OutputError.DRAINING:
            self._fleet.draining(peer, now)
        else:
            self._fleet.failed(peer, now)
        return Reason.ERROR
