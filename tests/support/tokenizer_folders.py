"""Small tokenizer.json documents for tests, and folders that hold them."""

import json
from pathlib import Path

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR

__all__ = [
    "added",
    "byte_level_document",
    "sentence_piece_document",
    "unigram_document",
    "write_folder",
]

_MERGES = [["h", "e"], ["l", "l"], ["he", "ll"], ["hell", "o"], ["Ġ", "w"]]
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_SPACE = "▁"


def added(id_: int, text: str, *, special: bool, **more: object) -> dict[str, object]:
    """Return one entry of `added_tokens`."""
    return {"id": id_, "content": text, "special": special, **more}


def byte_level_document(**changes: object) -> dict[str, object]:
    """Three control tokens, 256 bytes, merges, a user-defined token; GPT-2's split."""
    texts = ["<s>", "</s>", "<|im_end|>", *BYTE_TO_CHAR.values()]
    texts += ["".join(merge) for merge in _MERGES]
    model: dict[str, object] = {
        "type": "BPE",
        "vocab": {text: id_ for id_, text in enumerate(texts)},
        "merges": _MERGES,
    }
    document: dict[str, object] = {
        "added_tokens": [
            added(0, "<s>", special=True),
            added(1, "</s>", special=True),
            added(2, "<|im_end|>", special=False),
            added(len(texts), "<think>", special=False),
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
        },
        "model": model,
    }
    return _changed(document, model, changes)


def sentence_piece_document(**changes: object) -> dict[str, object]:
    """BPE with byte fallback, as Mixtral has it."""
    texts = ["<unk>", "<s>", "</s>", *_BYTES, _SPACE, *"helowd"]
    merges = ["l l", "h e", f"{_SPACE} w", "he ll", "hell o"]
    texts += [merge.replace(" ", "") for merge in merges]
    model: dict[str, object] = {
        "type": "BPE",
        "unk_token": "<unk>",
        "fuse_unk": True,
        "byte_fallback": True,
        "vocab": {text: id_ for id_, text in enumerate(texts)},
        "merges": merges,
    }
    replaced = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    document: dict[str, object] = {
        "added_tokens": [added(n, texts[n], special=True) for n in range(3)],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Prepend", "prepend": _SPACE}, replaced],
        },
        "pre_tokenizer": None,
        "model": model,
    }
    return _changed(document, model, changes)


def unigram_document(**changes: object) -> dict[str, object]:
    """Unigrams with byte fallback and a Metaspace that splits."""
    words = [_SPACE, *"helowrd", f"{_SPACE}hello", f"{_SPACE}world", "lo"]
    scores = [-9.0] * 8 + [-4.0] * 3
    pieces = [[text, 0.0] for text in ["<pad>", "</s>", "<unk>", *_BYTES]]
    pieces += [[text, score] for text, score in zip(words, scores, strict=True)]
    model: dict[str, object] = {
        "type": "Unigram",
        "unk_id": 2,
        "byte_fallback": True,
        "vocab": pieces,
    }
    document: dict[str, object] = {
        "added_tokens": [
            added(n, text, special=True)
            for n, text in enumerate(["<pad>", "</s>", "<unk>"])
        ],
        "pre_tokenizer": {"type": "Metaspace", "replacement": _SPACE},
        "model": model,
    }
    return _changed(document, model, changes)


def write_folder(
    folder: Path, document: dict[str, object] | None = None, **files: object
) -> Path:
    """Write tokenizer.json and other JSON files, `config` to config.json and so on."""
    folder.mkdir(exist_ok=True)
    for name, content in {"tokenizer": document, **files}.items():
        if content is not None:
            text = json.dumps(content, ensure_ascii=False)
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
    return folder


def _changed(
    document: dict[str, object], model: dict[str, object], changes: dict[str, object]
) -> dict[str, object]:
    """Set fields; those of the model begin with `model_`."""
    for name, value in changes.items():
        where = model if name.startswith("model_") else document
        where[name.removeprefix("model_")] = value
    return document
