"""`p2pmoe demo`: the whole network on one machine, and what it did.

Exit code 1 if anything that the demo claims does not hold. What its processes would
only say in their logs, each for itself, is said here: packages that are missing, a
kernel that is not there, a native one that was not built.
"""

import json
import sys
from typing import Annotated

import typer

__all__ = ["register"]

Prompt = Annotated[str, typer.Option(metavar="TEXT", help="The text to go on from.")]
MaxTokens = Annotated[
    int, typer.Option(min=32, max=512, metavar="N", help="How many tokens.")
]
Seed = Annotated[int, typer.Option(metavar="N", help="The same seed, the same text.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER", help="Folder to keep logs and ledger in; must be empty."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("demo")(_demo)


def _demo(
    prompt: Prompt = "It was a dark night, and the old man",
    max_tokens: MaxTokens = 64,
    seed: Seed = 7,
    as_json: AsJson = False,
    keep: Keep = None,
) -> None:
    """Run a whole network here, lose a worker, pay the others."""
    from functools import partial

    from p2pmoe.cli.computing import line_without_native, wanted_kernel
    from p2pmoe.cli.extras import check_extra
    from p2pmoe.demo.folder import demo_folder
    from p2pmoe.demo.screen import TerminalScreen, print_facts
    from p2pmoe.demo.story import Script, play
    from p2pmoe.network.running import run_to_the_end

    check_extra("serve")
    wanted = wanted_kernel()
    script = Script(prompt=prompt, max_tokens=max_tokens, seed=seed)
    screen = TerminalScreen(sys.stderr if as_json else sys.stdout)
    with demo_folder(keep) as folder:
        try:
            facts = run_to_the_end(partial(play, folder, script, screen.as_screen()))
        finally:
            screen.close()
    if as_json:
        print(json.dumps(facts.as_json()))
    else:
        print_facts(facts, sys.stdout)
    if wanted is None and (line := line_without_native()):
        print(line, file=sys.stderr)
    if not facts.holds:
        raise typer.Exit(1)
