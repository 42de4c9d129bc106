"""What stands beside a folder's tokenizer.json: special tokens, stops, the template.

- tokenizer_config.json: `bos_token`, `eos_token`, `add_bos_token`, `add_eos_token`,
  `chat_template` (a text, or a list of named ones, of which `default` is taken).
- chat_template.jinja: the template, before any other.
- config.json and generation_config.json: `bos_token_id`, `eos_token_id` (a number or a
  list), `vocab_size`; a model's matrices may have more rows than there are tokens.
"""

from dataclasses import dataclass
from pathlib import Path

from p2pmoe.text.errors import TemplateError, TokenizerError
from p2pmoe.text.folder_files import JsonObject, read_beside, read_json

__all__ = ["TokenizerConfig", "folder_template", "read_tokenizer_config"]

_TEMPLATE_NAME = "chat_template.jinja"
_MAX_CONFIG_BYTES = 1 << 24
_MAX_TEMPLATE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerConfig:
    """Texts and ids of special tokens as the files name them; None is not named."""

    bos: str | None = None
    eos: str | None = None
    add_bos: bool | None = None
    add_eos: bool | None = None
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()  # config.json's first, then generation_config.json's
    vocab_size: int = 0


def read_tokenizer_config(folder: Path) -> TokenizerConfig:
    """Read all files beside tokenizer.json; those that are missing say nothing.

    Raises:
        TokenizerError: One of them cannot be read, or a field is of another type.
    """
    nothing = JsonObject(str(folder), {})
    config = _read(folder, "config.json") or nothing
    inner = config.child("text_config") if "text_config" in config else config
    generation = _read(folder, "generation_config.json") or nothing
    tokenizer = _read(folder, "tokenizer_config.json") or nothing
    sources = (inner, config, generation)
    bos_ids = [id_ for source in sources for id_ in _ids(source, "bos_token_id")]
    eos_ids = [id_ for source in sources for id_ in _ids(source, "eos_token_id")]
    return TokenizerConfig(
        bos=_token_text(tokenizer, "bos_token"),
        eos=_token_text(tokenizer, "eos_token"),
        add_bos=_flag(tokenizer, "add_bos_token"),
        add_eos=_flag(tokenizer, "add_eos_token"),
        bos_id=bos_ids[0] if bos_ids else None,
        eos_ids=tuple(dict.fromkeys(eos_ids)),
        vocab_size=max(inner.of_type("vocab_size", int, 0), 0),
    )


def folder_template(folder: Path) -> str:
    """Return the folder's chat template, empty if it has none.

    Raises:
        TemplateError: It cannot be read, or none of several is called `default`.
        TokenizerError: tokenizer_config.json is no strict JSON.
    """
    own = _read_template(folder)
    if own is not None:
        return own
    tokenizer = _read(folder, "tokenizer_config.json")
    if tokenizer is None or "chat_template" not in tokenizer:
        return ""
    if isinstance(tokenizer.fields["chat_template"], str):
        return tokenizer.of_type("chat_template", str)
    named = {
        item.of_type("name", str): item.of_type("template", str)
        for item in tokenizer.children("chat_template")
    }
    if "default" not in named:
        raise TemplateError(f"{tokenizer.place}: no chat template is called 'default'")
    return named["default"]


def _read_template(folder: Path) -> str | None:
    try:
        raw = read_beside(folder, _TEMPLATE_NAME, _MAX_TEMPLATE_BYTES)
        return None if raw is None else raw.decode()
    except TokenizerError as exc:
        raise TemplateError(str(exc)) from exc
    except UnicodeDecodeError as exc:
        raise TemplateError(f"{folder / _TEMPLATE_NAME}: is not UTF-8") from exc


def _read(folder: Path, name: str) -> JsonObject | None:
    return read_json(folder, name, _MAX_CONFIG_BYTES)


def _token_text(source: JsonObject, name: str) -> str | None:
    """Return a token's text, given as a text or as an object with `content`."""
    if name not in source:
        return None
    if isinstance(source.fields[name], dict):
        return source.child(name).of_type("content", str)
    return source.of_type(name, str)


def _flag(source: JsonObject, name: str) -> bool | None:
    return source.of_type(name, bool) if name in source else None


def _ids(source: JsonObject, name: str) -> list[int]:
    value = source.fields.get(name)
    if value is None:
        return []
    listed: list[object] = value if isinstance(value, list) else [value]
    ids = [item for item in listed if type(item) is int and item >= 0]
    if len(ids) != len(listed):
        raise TokenizerError(f"{source.place}: {name!r} is no id or list of ids")
    return ids
