"""The error tree."""

import inspect

from relay import errors


def error_classes() -> list[type[errors.RelayError]]:
    members = [getattr(errors, name) for name in errors.__all__]
    return [member for member in members if inspect.isclass(member)]


def test_one_tree_with_two_branches() -> None:
    for error in error_classes():
        assert issubclass(error, errors.RelayError)
        if error is not errors.RelayError:
            local = issubclass(error, errors.LocalRelayError)
            assert local != issubclass(error, errors.RemoteRelayError)


def test_every_error_has_an_exit_code_and_documentation() -> None:
    for error in error_classes():
        assert error.exit_code == 2
        assert error.__doc__


def test_advice_is_the_classs_unless_given() -> None:
    assert "firewall" in errors.RelayUnreachable("x").advice
    assert errors.RelayUnreachable("x", advice="do y", peer="p").advice == "do y"
    assert errors.ConfigError("x").advice == ""


def test_what_the_errors_carry() -> None:
    assert errors.ConnectionLost("reset").reason == "reset"
    assert str(errors.ConnectionLost("reset")) == "connection to the relay lost: reset"
    assert errors.RelayBusy("full", retry_s=1.5, code=12).retry_s == 1.5
    assert errors.TokenRefused("no", code=4).code == 4
    assert errors.ProtocolError("bad").close_code == 1008
    assert errors.KnockRefused("tls").cause == "tls"
