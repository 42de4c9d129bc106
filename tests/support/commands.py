"""One command of the command line, run in this process."""

from typer.testing import CliRunner, Result

from p2pmoe.cli.main import build_app

__all__ = ["run_here"]


def run_here(*words: object) -> Result:
    """Run `p2pmoe WORDS...`; an error made for people is in `exception`."""
    app = build_app(str(words[0]))
    app.command("unused")(lambda: None)  # or typer makes the only command the root
    return CliRunner().invoke(app, [*map(str, words)])
