"""`p2pmoe trace plot FILE... --out FILE.svg`: a timeline of the passes of runs.

FILEs are of `p2pmoe run --trace`; those of one backbone share its clock, so that what
ran at the same time stands above each other. The picture's path goes to stderr.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from p2pmoe.trace.kept_passes import KeptPasses

__all__ = ["register"]

MAX_FILES = 64

Traces = Annotated[
    list[Path], typer.Argument(metavar="FILE", help="Traces, of one backbone.")
]
Out = Annotated[Path, typer.Option(metavar="FILE.svg", help="The picture to write.")]
Skip = Annotated[
    int, typer.Option(metavar="N", min=0, help="Passes of each trace to leave out.")
]
Passes = Annotated[
    int,
    typer.Option(metavar="N", min=1, max=1000, help="Passes of each trace to draw."),
]


def register(group: typer.Typer) -> None:
    """Add the command to the group `trace`."""
    group.command("plot")(_plot)


def _plot(traces: Traces, out: Out, skip: Skip = 0, passes: Passes = 60) -> None:
    """Draw when lanes computed, drafted and waited, and for which layers."""
    import sys

    from p2pmoe.cli.trace_input import no_passes, open_trace
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.trace.kept_passes import keep_passes
    from p2pmoe.trace.timeline import arrange
    from p2pmoe.trace.timeline_svg import draw_timeline

    if out.suffix.lower() != ".svg":
        raise ConfigurationError(
            f"--out {out} is no .svg file", advice="name one that ends in .svg"
        )
    if len(traces) > MAX_FILES:
        raise ConfigurationError(f"{len(traces)} traces are more than {MAX_FILES}")
    kept = []
    for path in traces:
        with open_trace(path) as records:
            found = keep_passes(records, skip=skip, most=passes)
        if not found.passes:
            raise no_passes(path, found.n_all, skip)
        kept.append(found)
    timeline = arrange(told for found in kept for told in found.passes)
    name = traces[0].name if len(traces) == 1 else f"{len(traces)} traces"
    picture = draw_timeline(timeline, f"Timeline of {name}", _under(kept))
    try:
        out.write_text(picture, encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "strerror", None) or error).lower()
        raise ConfigurationError(
            f"cannot write the picture {out}: {reason}",
            advice="name a file that can be written with --out",
        ) from error
    print(f"drawn as {out}", file=sys.stderr)


def _under(kept: "Sequence[KeptPasses]") -> list[str]:
    """Return the lines under the title: what the passes drawn come to."""
    from p2pmoe.passes.summary import merge_passes, summarise

    found = summarise(merge_passes(told for each in kept for told in each.decoding))
    lines = []
    if found.trips_per_token is not None and found.tokens_per_pass is not None:
        parts = [
            f"decoding: {found.n_tokens} tokens in {found.n_passes} passes "
            f"(g = {found.tokens_per_pass:.2f})",
            f"{found.n_trips} waits (A = {found.trips_per_token:.2f} a token)",
        ]
        if found.acceptance is not None:
            parts.append(f"{found.acceptance:.0%} of drafts accepted")
        if found.crossing_s is not None:
            parts.append(f"{found.crossing_s * 1000:.1f} ms a crossing (median)")
        lines.append(", ".join(parts))
    if len(kept) == 1:
        (only,) = kept
        last = only.n_skipped + len(only.passes)
        prompt = f"first {only.n_prompt} are" if only.n_prompt > 1 else "first is"
        lines.append(
            f"passes {only.n_skipped + 1} to {last} of {only.n_all}, "
            f"of which the {prompt} the prompt's"
        )
    return lines
