"""`p2pmoe models manifest`: what a backbone without experts is started by.

The whole model is read once and every expert and base piece hashed; the manifest names
the addresses where others can read the same files. Nothing is asked of them here. What
is to be given to `p2pmoe serve --manifest` goes to stdout.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from p2pmoe.errors import ConfigurationError

__all__ = ["register"]

_MODEL = b"GGUF"

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

    target = _target(output)
    model, files = open_public(model_path(path), source)
    with model, LateBar() as bar:
        digest = load_tokenizer(model, pretokenizer_override=pre_tokenizer).digest
        manifest = public_manifest(model, files, digest, bar.tell)
    _write(target, manifest.encode())
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


def _target(output: Path) -> Path:
    """Return the file to write, before the work of hashing; ConfigurationError.

    A device, a folder or a model that lies there is never replaced.
    """
    try:
        target = output.resolve()
        if not target.parent.is_dir():
            raise _unwritable(output, "there is no such folder")
        if target.exists():
            if not target.is_file():
                raise _unwritable(output, "it is no regular file")
            with target.open("rb") as file:
                if file.read(len(_MODEL)) == _MODEL:
                    raise _unwritable(output, "it is a model file")
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise _unwritable(output, _why(error)) from error
    return target


def _write(path: Path, blob: bytes) -> None:
    """Write beside, then rename: whoever serves the file never has half of it."""
    beside = path.with_name(path.name + ".part")
    try:
        beside.write_bytes(blob)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _unwritable(path, _why(error)) from error


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def _unwritable(path: Path, reason: str) -> "ConfigurationError":
    from p2pmoe.errors import ConfigurationError

    return ConfigurationError(
        f"cannot write the manifest {path}: {reason}",
        advice="name another file with --output",
    )
