"""The options of `serve`: each is used by the command, and has words for people."""

import inspect
from typing import get_args

from p2pmoe.cli import serve, serve_options


def test_every_option_is_one_of_the_command_and_has_help():
    used = [
        parameter.annotation
        for parameter in inspect.signature(serve._serve).parameters.values()
    ]
    for name in serve_options.__all__:
        option = getattr(serve_options, name)
        assert option in used, name
        assert get_args(option)[1].help, name
