from pathlib import Path

import pytest

from p2pmoe.text.errors import TemplateError, TokenizerError
from p2pmoe.text.tokenizer_config import (
    TokenizerConfig,
    folder_template,
    read_tokenizer_config,
)
from tests.support.tokenizer_folders import write_folder


def test_an_empty_folder_says_nothing(tmp_path: Path) -> None:
    assert read_tokenizer_config(tmp_path) == TokenizerConfig()
    assert folder_template(tmp_path) == ""


def test_all_files_are_read(tmp_path: Path) -> None:
    write_folder(
        tmp_path,
        config={"text_config": {"eos_token_id": 3, "vocab_size": 9}, "bos_token_id": 4},
        generation_config={"eos_token_id": [3, 5]},
        tokenizer_config={
            "bos_token": "<s>",
            "eos_token": {"content": "</s>", "lstrip": False},
            "add_bos_token": False,
            "add_eos_token": True,
        },
    )
    assert read_tokenizer_config(tmp_path) == TokenizerConfig(
        bos="<s>",
        eos="</s>",
        add_bos=False,
        add_eos=True,
        bos_id=4,
        eos_ids=(3, 5),
        vocab_size=9,
    )


@pytest.mark.parametrize(
    "files",
    [
        {"config": {"eos_token_id": "2"}},
        {"config": {"eos_token_id": [-1]}},
        {"config": {"vocab_size": 2.5}},
        {"generation_config": {"eos_token_id": True}},
        {"tokenizer_config": {"bos_token": 3}},
        {"tokenizer_config": {"add_bos_token": 1}},
        {"tokenizer_config": {"eos_token": {"content": None}}},
    ],
    ids=range(7),
)
def test_fields_of_another_type_are_refused(
    files: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(TokenizerError):
        read_tokenizer_config(write_folder(tmp_path, **files))  # type: ignore[arg-type]


def test_where_the_template_is(tmp_path: Path) -> None:
    write_folder(tmp_path, tokenizer_config={"chat_template": "one"})
    assert folder_template(tmp_path) == "one"
    named = [
        {"name": "tool_use", "template": "other"},
        {"name": "default", "template": "two"},
    ]
    write_folder(tmp_path, tokenizer_config={"chat_template": named})
    assert folder_template(tmp_path) == "two"
    (tmp_path / "chat_template.jinja").write_text("three", encoding="utf-8")
    assert folder_template(tmp_path) == "three"


def test_a_template_that_cannot_be_had_is_refused(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "other"}]
    write_folder(tmp_path, tokenizer_config={"chat_template": named})
    with pytest.raises(TemplateError, match="'default'"):
        folder_template(tmp_path)
    write_folder(tmp_path, tokenizer_config={"chat_template": 3})
    with pytest.raises(TokenizerError, match="chat_template"):
        folder_template(tmp_path)
    for content in (b"\xff", b"x" * ((1 << 20) + 1)):
        (tmp_path / "chat_template.jinja").write_bytes(content)
        with pytest.raises(TemplateError, match=r"chat_template\.jinja"):
            folder_template(tmp_path)
