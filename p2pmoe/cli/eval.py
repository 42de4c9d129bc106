"""`p2pmoe eval ...`: how good a model's answers are, stored and compared.

`p2pmoe eval MODEL ...` is `p2pmoe eval run MODEL ...`: a first word that is no command
of the group is a model. Each command has a file of its own.
"""

from typing import Any

import typer
from typer.core import TyperGroup

from p2pmoe.cli import eval_compare, eval_run, eval_timeline

__all__ = ["register"]

_DEFAULT = "run"
_HELP = frozenset({"-h", "--help"})


class _RunsByDefault(TyperGroup):
    def parse_args(
        self,
        ctx: Any,  # noqa: ANN401 - whose class it is depends on typer's version
        args: list[str],
    ) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in _HELP:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        cls=_RunsByDefault,
        help="How good a model's answers are: measured, stored, compared.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    eval_run.register(group)
    eval_compare.register(group)
    eval_timeline.register(group)
    app.add_typer(group, name="eval")
