"""`p2pmoe trace show FILE`: the passes of a run as tables, as `run --explain` has them.

FILE is of `p2pmoe run --trace`. The tables go to stdout, as one JSON object with
`--json`.
"""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

Trace = Annotated[Path, typer.Argument(metavar="FILE", help="A trace.")]
Skip = Annotated[
    int, typer.Option(metavar="N", min=0, help="Passes to leave out at the beginning.")
]
Passes = Annotated[
    int, typer.Option(metavar="N", min=1, max=100_000, help="Passes at most.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `trace`."""
    group.command("show")(_show)


def _show(
    trace: Trace, skip: Skip = 0, passes: Passes = 10_000, as_json: AsJson = False
) -> None:
    """Show what each pass of a run waited for, and which layers wait most."""
    import sys

    from p2pmoe.cli.explain_passes import ExplainedPass, print_passes
    from p2pmoe.cli.tables import print_json
    from p2pmoe.cli.trace_input import no_passes, open_trace
    from p2pmoe.passes.documents import pass_document
    from p2pmoe.trace.kept_passes import keep_passes

    with open_trace(trace) as records:
        kept = keep_passes(records, skip=skip, most=passes)
    if not kept.passes:
        raise no_passes(trace, kept.n_all, skip)
    if as_json:
        print_json(
            {
                "n_passes": kept.n_all,
                "n_prompt_passes": kept.n_prompt,
                "passes": [pass_document(told) for told in kept.passes],
            }
        )
        return
    explained = [ExplainedPass(text="", told=told) for told in kept.passes]
    n_prompt = max(0, kept.n_prompt - kept.n_skipped)
    n_before = max(0, kept.n_skipped - kept.n_prompt)
    print_passes(explained, sys.stdout, n_prompt=n_prompt, n_before=n_before)
