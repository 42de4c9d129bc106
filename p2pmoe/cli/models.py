"""`p2pmoe models ...`: look into model files before anything is computed with them.

Each command has a file of its own: models_inspect.py reads the header alone, and so
looks at a model of terabytes in a moment.
"""

import typer

from p2pmoe.cli import models_check, models_inspect, models_manifest, models_shards

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the group of commands to the command line."""
    group = typer.Typer(
        help="What a model file holds, and whether it runs here.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.callback()(_models)
    models_check.register(group)
    models_inspect.register(group)
    models_manifest.register(group)
    models_shards.register(group)
    app.add_typer(group, name="models")


def _models() -> None:
    """Keep a single command one of a group."""
