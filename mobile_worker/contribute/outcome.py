"""One error out of a nursery's group: the one that a person should see.

Tasks that end together raise a group. Those of its members that are made for people
(the error trees of this package and of the two below it) explain it; the others, if
any, are faults of the program and keep the group.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ledger.errors import LedgerError
from mobile_worker.errors import WorkerError
from relay.errors import RelayError

__all__ = ["only_error"]

_FOR_PEOPLE = (WorkerError, LedgerError, RelayError)


@contextmanager
def only_error() -> Iterator[None]:
    """Raise the first error for people instead of a group that holds nothing else."""
    try:
        yield
    except BaseExceptionGroup as group:
        leaves = list(_leaves(group))
        if not all(isinstance(leaf, _FOR_PEOPLE) for leaf in leaves):
            raise
        first = leaves[0]
    else:
        return
    raise first


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
