"""`p2pmoe models manifest`: what a backbone without experts is started by.

The whole model is read once and every expert and base piece hashed; the manifest names
the addresses where others can read the same files. Nothing is asked of them here. What
is to be given to `p2pmoe serve --manifest` goes to stdout.
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
Sources = Annotated[
    list[str],
    typer.Option(
        "--source",
        metavar="URL",
        help="Where others can read the file: its https address, that of the first "
        "part of a set, or FOLDER/. Give more than one for mirrors.",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The file to write; it is replaced."
    ),
]
PreTokenizer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Use this pre-tokenizer, whatever is there."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(group: typer.Typer) -> None:
    """Add the command to the group `models`."""
    group.command("manifest")(_manifest)


def _manifest(
    path: Model,
    source: Sources,
    output: Out,
    pre_tokenizer: PreTokenizer = None,
    as_json: AsJson = False,
) -> None:
    """Write the manifest of a model whose files can be read by HTTP."""
    from mobile_worker.shards.manifest import manifest_hash
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.cli.tables import print_json, print_values
    from p2pmoe.text.tokenizer import load_tokenizer
    from p2pmoe.weights.public_files import open_public, public_manifest

    model, files = open_public(model_path(path), source)
    with model, LateBar() as bar:
        digest = load_tokenizer(model, pretokenizer_override=pre_tokenizer).digest
        manifest = public_manifest(model, files, digest, bar.tell)
    _write(output, manifest.encode())
    name = manifest_hash(manifest).hex()
    base = sum(piece.n_bytes for piece in manifest.base)
    experts = sum(expert.n_bytes for expert in manifest.experts)
    if as_json:
        print_json(
            {
                "model": str(path),
                "output": str(output),
                "sha256": name,
                "name": manifest.name,
                "n_experts": len(manifest.experts),
                "expert_bytes": experts,
                "base_bytes": base,
                "files": [
                    {"n_bytes": file.n_bytes, "urls": list(file.urls)}
                    for file in manifest.files
                ],
            }
        )
        return
    print_values(
        {
            "model": manifest.name,
            "experts": f"{len(manifest.experts)}, {experts / (1 << 20):.1f} MiB",
            "everything else": f"{base / (1 << 20):.1f} MiB",
            "files": sum(1 for _ in manifest.files),
            "mirrors": len(manifest.files[0].urls),
            "written to": output,
            "serve with": f"--manifest URL#{name}",
        }
    )


def _write(path: Path, blob: bytes) -> None:
    """Write beside, then rename: whoever serves the file never has half of it."""
    beside = path.with_name(path.name + ".part")
    beside.write_bytes(blob)
    beside.replace(path)
