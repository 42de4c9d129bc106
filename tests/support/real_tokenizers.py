"""tokenizer.json and tokenizer_config.json as families publish them, few tokens.

Every field of the published files is there (truncation, decoders, post-processors,
added tokens with all their flags); vocabulary and merges are cut down.
"""

from typing import Any

from p2pmoe.text.byte_alphabet import BYTE_TO_CHAR

__all__ = ["published_tokenizer"]

_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_START = r"[^\r\n\p{L}\p{N}]?"
_PATTERNS = {
    "qwen": [f"{_ENDINGS}|{_WORD}|\\p{{N}}|{_SIGNS}|{_SPACES}"],
    "glm": [f"{_ENDINGS}|{_WORD}|\\p{{N}}{{1,3}}|{_SIGNS}|{_SPACES}"],
    "gpt-oss": [
        f"{_START}{_UPPER}*{_LOWER}+{_ENDINGS}?|{_START}{_UPPER}+{_LOWER}*{_ENDINGS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
    ],
    "deepseek": [
        r"\p{N}{1,3}",
        "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
        r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + _SPACES,
    ],
}
_BAR = "\uff5c"
_CONTROLS = {
    "qwen": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
    "glm": ["<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|observation|>"],
    "gpt-oss": [
        "<|startoftext|>",
        "<|endoftext|>",
        "<|return|>",
        "<|end|>",
        "<|call|>",
    ],
    "deepseek": [
        f"<{_BAR}{text}{_BAR}>"
        for text in ("begin▁of▁sentence", "end▁of▁sentence", "▁pad▁")
    ],
    "olmo": ["<|endoftext|>", "<|padding|>"],
    "mixtral": ["<unk>", "<s>", "</s>"],
}
_MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w"]


def published_tokenizer(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tokenizer.json and tokenizer_config.json of one of six kinds."""
    controls = _CONTROLS[kind]
    if kind == "mixtral":
        texts = [
            *controls,
            *(f"<0x{byte:02X}>" for byte in range(256)),
            "▁",
            *"helowrd",
        ]
        merges = ["l l", "h e", "▁ w", "he ll", "hell o"]
    else:
        texts, merges = [*controls, *BYTE_TO_CHAR.values()], _MERGES
    texts += [merge.replace(" ", "") for merge in merges]
    added = [_added(texts.index(text), text) for text in controls]
    if kind == "qwen":
        added.append({**_added(len(texts), "<think>"), "special": False})
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": "<unk>" if kind == "mixtral" else None,
        "continuing_subword_prefix": None if kind == "mixtral" else "",
        "end_of_word_suffix": None if kind == "mixtral" else "",
        "fuse_unk": kind == "mixtral",
        "byte_fallback": kind == "mixtral",
        "ignore_merges": False,
        "vocab": {text: id_ for id_, text in enumerate(texts)},
        "merges": [m.split(" ") for m in merges] if kind == "gpt-oss" else merges,
    }
    document = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        **_steps(kind),
        "model": model,
    }
    return document, _config(kind, added)


def _added(id_: int, text: str) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": id_, "content": text, **flags, "special": True}


def _steps(kind: str) -> dict[str, Any]:
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    whole = {**byte_level, "trim_offsets": True, "use_regex": True}
    if kind == "mixtral":
        replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
        prepend = {"type": "Prepend", "prepend": "▁"}
        return {
            "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]},
            "pre_tokenizer": None,
            "post_processor": {
                "type": "TemplateProcessing",
                "single": [
                    {"SpecialToken": {"id": "<s>", "type_id": 0}},
                    {"Sequence": {"id": "A", "type_id": 0}},
                ],
                "pair": [],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
            },
            "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}]},
        }
    splits = [
        {
            "type": "Split",
            "pattern": {"Regex": pattern},
            "behavior": "Isolated",
            "invert": False,
        }
        for pattern in _PATTERNS.get(kind, [])
    ]
    last = {**byte_level, "trim_offsets": False, "use_regex": False}
    normalizer: dict[str, Any] | None = {"type": "NFC"}
    if kind == "deepseek":
        normalizer = {"type": "Sequence", "normalizers": []}
    elif kind in {"glm", "gpt-oss"}:
        normalizer = None
    return {
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, last]}
        if splits
        else whole,
        "post_processor": whole,
        "decoder": whole,
    }


def _config(kind: str, added: list[dict[str, Any]]) -> dict[str, Any]:
    decoder = {
        str(token["id"]): {key: value for key, value in token.items() if key != "id"}
        for token in added
    }
    bos = {"deepseek": 0, "gpt-oss": 0, "mixtral": 1}.get(kind)
    eos = {"qwen": 2, "gpt-oss": 2, "mixtral": 2, "deepseek": 1}.get(kind, 0)
    named = {
        "bos_token": None if bos is None else added[bos]["content"],
        "eos_token": added[eos]["content"],
        "pad_token": added[0]["content"],
        "unk_token": None,
    }
    if kind == "deepseek":  # objects instead of texts
        named |= {
            key: {"__type": "AddedToken", "content": text, "lstrip": False}
            for key, text in named.items()
            if text is not None
        }
    adds = {"add_bos_token": True, "add_eos_token": False}
    return {
        **(adds if kind in {"deepseek", "mixtral"} else {}),
        "added_tokens_decoder": decoder,
        "additional_special_tokens": [token["content"] for token in added],
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "extra_special_tokens": {},
        "legacy": True,
        "model_max_length": 1000000000000000019884624838656,
        "sp_model_kwargs": {},
        "split_special_tokens": False,
        "tokenizer_class": "PreTrainedTokenizerFast",
        "use_default_system_prompt": False,
        **named,
    }
