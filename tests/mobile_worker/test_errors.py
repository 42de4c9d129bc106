"""The tree of errors: ours, theirs, and what people are told."""

import inspect

from mobile_worker import errors
from mobile_worker.errors import LocalError, MessageError, RemoteError, WorkerError
from relay.keys import PeerId


def test_each_error_is_ours_or_theirs():
    for name in errors.__all__:
        error = getattr(errors, name)
        assert issubclass(error, WorkerError)
        if error not in (WorkerError, LocalError, RemoteError):
            assert issubclass(error, LocalError) != issubclass(error, RemoteError)
        assert error.exit_code == 2


def test_the_docstring_names_every_error():
    for name in errors.__all__:
        assert name in inspect.getdoc(errors)


def test_remote_errors_carry_the_peer_and_advice():
    peer = PeerId(bytes(32))
    error = MessageError("unknown message type 99", advice="Update", peer=peer)
    assert (str(error), error.advice, error.peer) == (
        "unknown message type 99",
        "Update",
        peer,
    )
    assert MessageError("x").peer is None
