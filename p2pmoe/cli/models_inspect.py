"""`p2pmoe models inspect PATH`: what a model holds, and whether it runs here.

Only headers are read: of a file of terabytes, or of one whose weights are not there
yet, in a moment and in little memory. A file that is no model at all, or lies about
itself, is an error (exit code 2); a model that cannot run here is reported like any
other, with the reasons (exit code 0).
"""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.inspect.report import OnDisk
    from p2pmoe.weights.model_header import ModelHeader

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
    from p2pmoe.inspect.report import as_document, format_rows, part_rows, summary
    from p2pmoe.weights.model_file import read_header

    header = read_header(model_path(path))
    if is_foreign(header):
        header = in_gguf_terms(header)
    inventory = take_inventory(header)
    verdict = judge(header, inventory)
    on_disk = _on_disk(header)
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


def _on_disk(header: "ModelHeader") -> "OnDisk":
    """Return how many files the weights are in, and their bytes."""
    from p2pmoe.inspect.report import OnDisk
    from p2pmoe.weights.find import parse_part_name

    if header.folder is not None:
        files = header.folder.glob("*.safetensors")
        sizes = [path.stat().st_size for path in files if path.is_file()]
        return OnDisk(n_files=len(sizes), n_bytes=sum(sizes))
    part = parse_part_name(header.path)
    is_set = part is not None and header.path.stat().st_size < header.n_bytes
    n_files = part.count if part is not None and is_set else 1
    return OnDisk(n_files=n_files, n_bytes=header.n_bytes)
