"""A request to end is an interrupt, where nobody else sees to it."""

import os
import signal
import threading

import pytest

from p2pmoe.cli.ending import asked_to_end_is_interrupted


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_to_end_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), asked_to_end_is_interrupted():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with asked_to_end_is_interrupted():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_go_without() -> None:
    seen: list[bool] = []

    def compute() -> None:
        with asked_to_end_is_interrupted():
            seen.append(True)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert seen == [True]
