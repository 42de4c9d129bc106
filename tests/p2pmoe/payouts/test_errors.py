"""The tree of errors around payouts: exit codes and advice."""

from p2pmoe.errors import ConfigurationError
from p2pmoe.payouts import errors


def test_what_nobody_knows_has_an_exit_code_of_its_own():
    assert errors.Unresolved("x").exit_code == 3
    assert "payout resolve" in errors.Unresolved("x").advice
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, ConfigurationError)
        if name not in {"PayoutError", "Unresolved"}:
            assert (kind("x").exit_code, bool(kind.advice)) == (2, True)
