"""The child: `python -m p2pmoe.backbone.mapped.child SOCKET KERNEL THREADS FD...`.

Maps the files behind the descriptors, answers WORK with values until its socket ends,
and then ends too. It knows no names of files and opens none. If its parent is killed,
so is it, at once where the system can do that. SIGINT and SIGTERM are left to the
parent. A page that a file has lost ends it by SIGBUS, without a core dump.

While it computes, a second thread tells each second what the process holds, so that
silence means a process that hangs.
"""

import contextlib
import ctypes
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mobile_worker.arithmetic.candidates import kernel_candidates
from mobile_worker.arithmetic.errors import (
    ArithmeticRefused,
    KernelUnavailable,
    NonFinite,
)
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.shards.shard import check_expert
from p2pmoe.backbone.mapped.frames import read_frame, send_frame
from p2pmoe.backbone.mapped.mapping import MappedFiles
from p2pmoe.backbone.mapped.messages import (
    Call,
    Kind,
    MessageMalformed,
    Reason,
    Refused,
    Values,
    Work,
    pack_beat,
    pack_refused,
    pack_values,
    parse_work,
)
from p2pmoe.backbone.mapped.process_figures import process_counts, process_figures

__all__ = ["Computer", "main", "serve"]

BEAT_S = 1.0
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
_FIRST_TO_GO = "500"


class Computer:
    """Computes calls on mapped files; one thread."""

    def __init__(self, files: MappedFiles, kernel: Kernel) -> None:
        """Compute with `kernel`."""
        self._files = files
        self._kernel = kernel
        self._checked: set[int] = set()  # packed ids

    def prepare(self, work: Work) -> None:
        """Ask for all that the calls will touch."""
        for call in work.calls:
            with contextlib.suppress(ArithmeticRefused, OSError):
                self._files.will_need(call.ranges)

    def compute(self, work: Work, call: Call) -> Values | Refused:
        """Return one call's values, or why there are none."""
        before, start = process_counts(), time.perf_counter()
        try:
            weights = self._files.weights(call.ranges, call.activation)
            if call.expert.packed not in self._checked:
                check_expert(weights, call.expert)
                self._checked.add(call.expert.packed)
            job = KernelCall(weights=weights, rows=call.rows)
            (values,) = self._kernel.expert_values([job], work.rows, work.profile)
        except NonFinite as error:
            return _refused(work, call, Reason.NON_FINITE, error)
        except ArithmeticRefused as error:
            return _refused(work, call, Reason.UNFIT, error)
        return Values(
            job=work.job,
            expert=call.expert,
            values=values,
            micros=int((time.perf_counter() - start) * 1e6),
            counts=process_counts().since(before),
        )


def _refused(work: Work, call: Call, reason: Reason, error: Exception) -> Refused:
    return Refused(job=work.job, expert=call.expert, reason=reason, text=str(error))


class _Beats:
    """Tells each second what the process holds, while there is work; a context."""

    def __init__(self, link: socket.socket, sending: threading.Lock) -> None:
        self._link = link
        self._sending = sending
        self._working = threading.Event()
        self._told_at = float("-inf")
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> None:
        self._working.set()

    def __exit__(self, *_: object) -> None:
        self._working.clear()
        if time.monotonic() - self._told_at > BEAT_S:
            self.tell()

    def tell(self) -> None:
        self._told_at = time.monotonic()
        with self._sending:
            send_frame(self._link, Kind.BEAT, pack_beat(process_figures()))

    def _run(self) -> None:
        with contextlib.suppress(OSError):  # nobody reads: the main thread ends too
            while True:
                self._working.wait()
                time.sleep(BEAT_S)
                if self._working.is_set():
                    self.tell()


def serve(link: socket.socket, computer: Computer) -> None:
    """Answer until the other side ends; MessageMalformed, OSError."""
    sending = threading.Lock()
    beats = _Beats(link, sending)
    beats.tell()
    while True:
        frame = read_frame(link)
        if frame is None:
            return
        kind, body = frame
        if kind is not Kind.WORK:
            raise MessageMalformed(f"{kind.name} is not for the child")
        work = parse_work(body)
        with beats:
            computer.prepare(work)
            for call in work.calls:
                found = computer.compute(work, call)
                with sending:
                    _answer(link, found)


def _answer(link: socket.socket, found: Values | Refused) -> None:
    if isinstance(found, Values):
        send_frame(link, Kind.VALUES, pack_values(found))
    else:
        send_frame(link, Kind.REFUSED, pack_refused(found))


def _settle() -> None:
    """Die with the parent, or in its place; leave signals to it, and no core behind."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # Short of memory, the system is to choose the one that can be started again.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_GO, encoding="ascii")


def main(words: Sequence[str]) -> int:
    """Run the child; return its exit code."""
    _settle()
    number, name, n_threads, *fds = words
    try:
        candidates = {one.name: one for one in kernel_candidates(int(n_threads))}
        files = MappedFiles([int(fd) for fd in fds])
        computer = Computer(files, candidates[name].open(0))
    except (KernelUnavailable, KeyError, OSError, ValueError) as error:
        sys.stderr.write(f"the process that maps the model: {error}\n")
        return 2
    with socket.socket(fileno=int(number)) as link:
        try:
            serve(link, computer)
        except (OSError, MessageMalformed):
            return 1
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    os._exit(main(sys.argv[1:]))  # the other thread is not waited for
