"""Byte credit: what is granted is never less than nothing, nor more than the window."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.flow import FIRST_WINDOW_BYTES, Flow, Receiving

WINDOW = 100_000


def test_small_steps_are_not_worth_a_grant():
    receiving = Receiving()
    receiving.told = receiving.granted = WINDOW
    receiving.arrived(WINDOW // 4 - 1)
    assert receiving.grant(WINDOW, 0) is None
    receiving.arrived(WINDOW // 4)
    assert receiving.grant(WINDOW, 0) == WINDOW + WINDOW // 4
    assert receiving.grant(WINDOW, 0) is None
    assert receiving.grant(WINDOW, 0, force=True) == WINDOW + WINDOW // 4


def test_what_waits_is_not_granted_again():
    receiving = Receiving()
    receiving.arrived(WINDOW)
    assert receiving.grant(WINDOW, WINDOW, force=True) == WINDOW
    assert receiving.grant(WINDOW, 2 * WINDOW, force=True) == WINDOW


@given(st.lists(st.tuples(st.integers(0, 50_000), st.booleans()), max_size=60))
def test_lost_bytes_are_forgiven(steps):
    """However many frames get lost, the next that arrives restores the credit."""
    sent, receiving = 0, Receiving()
    for n, lost in steps:
        sent += n
        if not lost:
            receiving.arrived(sent)
    receiving.arrived(sent)
    assert receiving.grant(WINDOW, 0, force=True) == sent + WINDOW


def test_narrowing_holds_the_sender_back():
    flow = Flow()
    sending = flow.sending[MessageClass.BULK]
    assert sending.available == FIRST_WINDOW_BYTES
    sending.limit = 10**9
    sending.offset = 500
    flow.narrow(MessageClass.BULK, 1000)
    assert sending.available == 1000
