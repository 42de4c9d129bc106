"""Errors of a worker's start and end."""

from mobile_worker.contribute.errors import ArithmeticDiffers, MarketRefused
from mobile_worker.errors import WorkerError


def test_they_belong_to_the_tree_and_exit_with_2() -> None:
    for error in (ArithmeticDiffers("x", advice="y"), MarketRefused("x")):
        assert isinstance(error, WorkerError)
        assert error.exit_code == 2
