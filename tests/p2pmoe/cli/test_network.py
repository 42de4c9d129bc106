"""`p2pmoe network`: what the operator decides, on a folder alone."""

from tests.support.command_line import run


def test_the_group_says_what_it_is() -> None:
    outcome = run("network", "--help")
    assert outcome.code == 0
    assert "Found a network" in outcome.out
