"""Prompts to token ids: texts, arrays of ids, and conversations by the template."""

from http import HTTPStatus

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import Conversation, Prompt
from p2pmoe.api.served_model import ServedModel
from p2pmoe.text.errors import TemplateError, TextRefused
from p2pmoe.text.template import BrokenTemplate, ChatTemplate

__all__ = ["encode_prompt"]

_EFFORT = "reasoning_effort"  # the field, and the variable of templates


def encode_prompt(prompt: Prompt, model: ServedModel) -> tuple[int, ...]:
    """Return a prompt's token ids, BOS included where the model wants one.

    Raises:
        ApiRefusal: An impossible text, one that cannot fit, or a template that fails.
    """
    param = "messages" if isinstance(prompt, Conversation) else "prompt"
    _refuse_hopeless(prompt, model)
    try:
        ids = _ids(prompt, model)
    except TextRefused as exc:
        raise ApiRefusal(str(exc), param=param, code="invalid_value") from exc
    except TemplateError as exc:
        if exc.by_messages:
            raise ApiRefusal(str(exc), param=param, code="invalid_value") from exc
        raise ApiRefusal(
            "the model's chat template failed",
            param=param,
            code="template_failed",
            status=HTTPStatus.INTERNAL_SERVER_ERROR,
        ) from exc
    if not ids:
        raise ApiRefusal(f"{param} is empty", param=param, code="invalid_value")
    if len(ids) >= model.n_context:
        raise _too_long(param, f"{len(ids)} tokens", model)
    return ids


def _ids(prompt: Prompt, model: ServedModel) -> tuple[int, ...]:
    if isinstance(prompt, str):
        bos = model.tokenizer.vocabulary.add_bos
        return tuple(model.tokenizer.encode(prompt, bos=bos))
    if not isinstance(prompt, Conversation):
        for token in prompt:
            model.tokenizer.token_bytes(token)
        return prompt
    template = model.template
    if template is None:
        raise ApiRefusal(
            "this model has no chat template; use /v1/completions",
            param="messages",
            code="no_chat_template",
        )
    _check_template(prompt, template)
    use = prompt.tool_use
    tools = [] if use is None else [tool.spec for tool in use.tools]
    return tuple(template.encode(prompt.messages, tools, prompt.effort))


def _check_template(
    prompt: Conversation, template: ChatTemplate | BrokenTemplate
) -> None:
    if prompt.tool_use is not None and not template.tools.shows_tools:
        raise ApiRefusal(
            "the model's chat template takes no tools",
            param="tools",
            code="unsupported_parameter",
        )
    if prompt.effort is not None and _EFFORT not in template.source:
        raise ApiRefusal(
            f"the model's chat template knows no {_EFFORT}",
            param=_EFFORT,
            code="unsupported_parameter",
        )
    for number, message in enumerate(prompt.messages):
        if not (message.calls or message.call_id) or template.tools.takes_calls:
            continue
        field = "tool_calls" if message.calls else "role"
        raise ApiRefusal(
            "the model's chat template takes no calls of tools",
            param=f"messages[{number}].{field}",
            code="unsupported_parameter",
        )


def _refuse_hopeless(prompt: Prompt, model: ServedModel) -> None:
    """Refuse a text that no tokenization could fit, before it is tokenized."""
    if isinstance(prompt, str):
        param, n_characters = "prompt", len(prompt)
    elif isinstance(prompt, Conversation):
        param = "messages"
        n_characters = sum(len(message.content) for message in prompt.messages)
    else:
        return
    if n_characters > model.n_context * model.tokenizer.longest_token_bytes:
        raise _too_long(param, f"{n_characters} characters", model)


def _too_long(param: str, size: str, model: ServedModel) -> ApiRefusal:
    return ApiRefusal(
        f"the prompt of {size} leaves no room in a context of {model.n_context} tokens",
        param=param,
        code="context_length_exceeded",
    )
