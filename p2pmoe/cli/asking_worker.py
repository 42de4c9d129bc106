"""What the commands that steer a running worker have in common: its folder, its answer.

They work without a network: the worker is on this machine, and is asked through the
socket in its data folder.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "Data", "ask", "folder_of", "print_lines"]

Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", help="The worker's folder, if not usual."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
_MAX_LINES = 20
_MAX_TEXT = 2000


def folder_of(data: Path | None) -> Path:
    """Return the worker's data folder."""
    from p2pmoe.cli.data_folders import worker_folder

    return data or worker_folder()


def ask(
    data: Path | None, operation: str, params: Mapping[str, object] | None = None
) -> dict[str, object]:
    """Ask the worker of a folder; see `p2pmoe.contributor.desk` for what it does.

    Raises:
        WorkerNotRunning, WorkerSilent, ControlRefused: in words for people.
    """
    from p2pmoe.contributor.client import ask_worker

    return ask_worker(folder_of(data), operation, params)


def print_lines(document: Mapping[str, object], *, as_json: bool) -> None:
    """Print a worker's report: its lines, or without them as JSON."""
    from p2pmoe.cli.tables import print_json, print_values

    if as_json:
        print_json({k: v for k, v in document.items() if k != "lines"})
        return
    print_values(_pairs(document.get("lines")))


def _pairs(lines: object) -> dict[str, object]:
    found = lines if isinstance(lines, Sequence) else ()
    return {
        str(pair[0])[:_MAX_TEXT]: str(pair[1])[:_MAX_TEXT]
        for pair in found[:_MAX_LINES]
        if isinstance(pair, Sequence) and len(pair) == 2
    }
