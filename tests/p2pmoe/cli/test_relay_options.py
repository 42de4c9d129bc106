"""The options of `p2pmoe relay` as the command line shows them."""

from typing import get_args

from typer.models import OptionInfo

from p2pmoe.cli import relay_options


def test_each_option_says_what_it_is_for() -> None:
    for name in relay_options.__all__:
        option = get_args(getattr(relay_options, name))[1]
        assert isinstance(option, OptionInfo)
        assert option.help, name
        assert option.help.endswith("."), name
