"""Every error has a line for people and an exit code."""

from p2pmoe import errors


def test_each_error_is_in_the_one_tree() -> None:
    for name in errors.__all__:
        assert issubclass(getattr(errors, name), errors.P2pmoeError)


def test_advice_is_the_classes_own_unless_given() -> None:
    assert "wait until" in errors.ExpertsUnavailable("expert 3").advice
    assert errors.ExpertsUnavailable("expert 3", advice="go").advice == "go"


def test_a_remote_error_carries_its_peer() -> None:
    refused = errors.OutputRefused("5 rows, 4 asked for", peer=bytes(32))
    assert refused.peer == bytes(32)
    assert refused.exit_code == 2
