"""`p2pmoe convert SOURCE OUT.gguf`: one GGUF file, each part as precise as it needs.

SOURCE is whatever `serve` takes. What was written goes to stdout, format by format;
what could not be written as asked for goes to stderr. Tensors whose format does not
change are copied bit for bit.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p2pmoe.cli.extras import check_extra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mobile_worker.arithmetic.formats.block_format import Format
    from p2pmoe.convert.precision import PlannedTensor, Precision
    from p2pmoe.text.vocabulary import Vocabulary
    from p2pmoe.weights.model_file import ModelFile
    from p2pmoe.weights.parts import Part

__all__ = ["register"]

_KEEP = "keep"

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A GGUF file, a safetensors folder, or `pocket`."
    ),
]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="The GGUF file to write.")]
Experts = Annotated[
    str, typer.Option(metavar="FORMAT", help="Routed experts; `keep` changes nothing.")
]
Router = Annotated[str, typer.Option(metavar="FORMAT", help="Routers.")]
Embeddings = Annotated[
    str, typer.Option(metavar="FORMAT", help="Embedding and output matrices.")
]
Rest = Annotated[
    str, typer.Option(metavar="FORMAT", help="What no other option names.")
]
Attention = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Attention; else as --rest.")
]
Shared = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Shared experts; else as --rest.")
]
Dense = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Dense layers; else as --rest.")
]
PreTokenizer = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Write this pre-tokenizer, whatever is there."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace OUT if it is there.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("convert")(_convert)


def _convert(
    source: Source,
    out: Out,
    experts: Experts = "Q4_0",
    router: Router = "F32",
    embeddings: Embeddings = "Q8_0",
    rest: Rest = "Q8_0",
    attention: Attention = None,
    shared: Shared = None,
    dense: Dense = None,
    pre_tokenizer: PreTokenizer = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write any model as one GGUF file, with a precision for each part."""
    check_extra("convert")
    from p2pmoe.cli.ending import asked_to_end_is_interrupted
    from p2pmoe.cli.late_bar import LateBar
    from p2pmoe.cli.model_path import model_path
    from p2pmoe.convert.carried import carried_metadata
    from p2pmoe.convert.precision import plan_conversion
    from p2pmoe.convert.write import Target, check_target, write_model
    from p2pmoe.text.template import template_source
    from p2pmoe.weights.model_file import open_model
    from p2pmoe.weights.parts import Part

    precision = _precision(
        {
            Part.EXPERTS: experts,
            Part.ROUTER: router,
            Part.EMBEDDING: embeddings,
            Part.ATTENTION: attention or rest,
            Part.SHARED: shared or rest,
            Part.DENSE: dense or rest,
            Part.LATENT: rest,
            Part.NEXT: rest,
        }
    )
    target = Target(path=out, force=force)
    check_target(target)
    with (
        asked_to_end_is_interrupted(),
        open_model(model_path(source)) as model,
        LateBar() as bar,
    ):
        plan = plan_conversion(model, precision)
        vocabulary = _vocabulary(model, pre_tokenizer)
        metadata = carried_metadata(model, plan, vocabulary, template_source(model))
        n_bytes = write_model(model, metadata, plan, target, bar.tell)
    _report(out, n_bytes, plan, as_json=as_json)


def _precision(named: "Mapping[Part, str]") -> "Precision":
    """Return the format of every part; FormatNotWritable."""
    from p2pmoe.convert.precision import DEFAULT_PRECISION
    from p2pmoe.weights.parts import Part

    precision = {part: _format(name) for part, name in named.items()}
    if precision[Part.LATENT] is None:
        precision[Part.REST] = None
    return {**DEFAULT_PRECISION, **precision}


def _format(name: str) -> "Format | None":
    from p2pmoe.convert.quantize import writable_format

    return None if name.strip().lower() == _KEEP else writable_format(name)


def _vocabulary(model: "ModelFile", pre_tokenizer: str | None) -> "Vocabulary | None":
    """Return the vocabulary where the metadata do not hold it as it shall be."""
    from p2pmoe.text.loading import load_vocabulary

    if model.folder is None and pre_tokenizer is None:
        return None
    return load_vocabulary(model, pre_tokenizer)


def _report(
    out: Path, n_bytes: int, plan: "Sequence[PlannedTensor]", *, as_json: bool
) -> None:
    from p2pmoe.cli.tables import print_json, print_rows
    from p2pmoe.inspect.report import decimal_size

    rows: list[dict[str, object]] = []
    for block_format in dict.fromkeys(tensor.format for tensor in plan):
        own = [tensor for tensor in plan if tensor.format is block_format]
        rows.append(
            {
                "format": block_format.name,
                "tensors": len(own),
                "copied": sum(tensor.is_copy for tensor in own),
                "bytes": sum(tensor.n_bytes for tensor in own),
            }
        )
    n_narrower = sum(tensor.is_narrower for tensor in plan)
    misfits = [tensor for tensor in plan if tensor.misfit is not None]
    for tensor in misfits:
        print(
            f"{tensor.source.name}: rows of {tensor.source.n_cols} values do not fit "
            f"{tensor.misfit and tensor.misfit.name}, written as {tensor.format.name}",
            file=sys.stderr,
        )
    if as_json:
        print_json(
            {
                "path": str(out),
                "bytes": n_bytes,
                "formats": rows,
                "misfits": [tensor.source.name for tensor in misfits],
                "n_narrower": n_narrower,
            }
        )
        return
    print_rows(("format", "tensors", "copied", "bytes"), rows, "Written")
    if n_narrower:
        print(
            f"{n_narrower} tensors have fewer bits than asked for and stay as they "
            "are: more would bring nothing back",
            file=sys.stderr,
        )
    print(f"wrote {out}: {decimal_size(n_bytes)}", file=sys.stderr)
