"""`p2pmoe models shards`: fill a relay's folder of shards from a model file.

Workers of that relay then have them from there, and the backbone's uplink is left to
its tokens. What is written goes to stdout as figures.
"""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["register"]

Model = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A GGUF file, the first part of a set, or `pocket`."
    ),
]
Into = Annotated[
    Path,
    typer.Option(
        "--into", metavar="FOLDER", help="The relay's data folder, `blobs` below it."
    ),
]
Most = Annotated[
    str, typer.Option("--max", metavar="SIZE", help="Most that the folder may hold.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `models`."""
    group.command("shards")(_shards)


def _shards(
    path: Model, into: Into, most: Most = "1G", as_json: AsJson = False
) -> None:
    """Write a model's experts, by hash, for a relay to hand out."""
    from mobile_worker.shards.errors import StoreFull
    from mobile_worker.shards.store import ShardStore
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.cli.sizes import format_size, parse_size
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.errors import ConfigurationError
    from p2pmoe.weights.manifest import build_manifest
    from p2pmoe.weights.model_file import open_model
    from p2pmoe.weights.shard_export import export_shards

    folder = into / "blobs"
    store = ShardStore(folder, max_bytes=parse_size(most, option="--max"))
    with open_model(model_path(path)) as model, LateBar() as bar:
        manifest = build_manifest(
            model, progress=lambda n, of: bar.tell("hashing the experts", n / of)
        )
        try:
            n_new, n_bytes = export_shards(
                model,
                manifest,
                store,
                lambda n, of: bar.tell("writing the experts", n / max(1, of)),
            )
        except StoreFull as error:
            advice = "raise --max and the relay's --blobs, or free some space"
            raise ConfigurationError(str(error), advice=advice) from error
    figures = {
        "model": manifest.name,
        "experts": len(manifest.experts),
        "written": n_new,
        "bytes_written": n_bytes,
        "folder": str(folder),
    }
    if as_json:
        print_json(figures)
        return
    written = f"{n_new} of {len(manifest.experts)}"
    print_values(
        {
            "model": manifest.name,
            "experts written": f"{written}, {format_size(n_bytes)}",
            "folder": folder,
        }
    )
