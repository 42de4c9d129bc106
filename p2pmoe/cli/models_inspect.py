"""`p2pmoe models inspect PATH`: what a model holds, and whether it runs here.

Only headers are read: of a file of terabytes, or of one whose weights are not there
yet, in a moment and in little memory. A file that is no model at all, or lies about
itself, is an error (exit code 2); a model that cannot run here is reported like any
other, with the reasons (exit code 0).
"""

from typing import Annotated

import typer

__all__ = ["register"]

ModelPath = Annotated[
    str,
    typer.Argument(
        metavar="PATH", help="A GGUF file, a safetensors folder, or `pocket`."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `models`."""
    group.command("inspect")(_inspect)


def _inspect(path: ModelPath, as_json: AsJson = False) -> None:
    """Say what a model holds, and whether it runs here."""
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.cli.tables import print_json, print_rows, print_values
    from p2pmoe.inspect.foreign import in_gguf_terms, is_foreign
    from p2pmoe.inspect.inventory import take_inventory
    from p2pmoe.inspect.obstacles import judge
    from p2pmoe.inspect.on_disk import files_of
    from p2pmoe.inspect.report import as_document, format_rows, part_rows, summary
    from p2pmoe.weights.model_file import read_header

    header = read_header(model_path(path))
    if is_foreign(header):
        header = in_gguf_terms(header)
    inventory = take_inventory(header)
    verdict = judge(header, inventory)
    on_disk = files_of(header)
    if as_json:
        print_json(as_document(inventory, verdict, on_disk))
        return
    print_values(summary(inventory, verdict, on_disk))
    print()
    parts = ("part", "tensors", "parameters", "bytes", "size")
    print_rows(parts, part_rows(inventory), "Parts")
    print()
    formats = ("format", "tensors", "bytes", "size")
    print_rows(formats, format_rows(inventory), "Formats")
