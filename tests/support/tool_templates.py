"""Templates that show tools and take calls, built like those of the model families.

The wording is ours; the marks and the places of names, arguments and results are
theirs. `ANSWERS` is, by family, what a model of it writes to call the weather of Bern.
"""

__all__ = ["ANSWERS", "TOOL_TEMPLATES"]

_CHATML = (
    "{%- if tools %}<|im_start|>system\nTools:\n"
    "{%- for tool in tools %}\n{{ tool | tojson }}{% endfor %}\nWrite @HOW@<|im_end|>\n"
    "{%- endif %}"
    "{%- for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{%- for call in m.tool_calls or [] %}@CALL@{% endfor %}<|im_end|>\n{%- endfor %}"
    "<|im_start|>assistant\n"
)


def _like(how: str, call: str) -> str:
    return _CHATML.replace("@HOW@", how).replace("@CALL@", call)


_NAME = "{{ call.function.name }}"
_PAIRS = "{%- for k, v in call.function.arguments.items() %}"
_DEEPSEEK_CALL = (
    "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>"
    "function<\uff5ctool\u2581sep\uff5c>{}\n```json\n{}\n```"
    "<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"
)
_KIMI_CALL = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.{}:0"
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
)
_HARMONY_CALL = "<|channel|>commentary to=functions.{} <|constrain|>json<|message|>{}"
_JSON = '{"city": "Bern"}'

TOOL_TEMPLATES = {
    "hermes": _like(
        "<tool_call></tool_call>",
        '\n<tool_call>\n{"name": "' + _NAME + '", "arguments": '
        "{{ call.function.arguments | tojson }}}\n</tool_call>",
    ),
    "qwen-coder": _like(
        "<tool_call><function=NAME></function></tool_call>",
        f"\n<tool_call>\n<function={_NAME}>{_PAIRS}\n<parameter={{{{ k }}}}>\n"
        "{{ v }}\n</parameter>{% endfor %}\n</function>\n</tool_call>",
    ),
    "glm": _like(
        "<tool_call>NAME<arg_key></arg_key></tool_call>",
        f"\n<tool_call>{_NAME}{_PAIRS}\n<arg_key>{{{{ k }}}}</arg_key>\n<arg_value>"
        "{{ v if v is string else v | tojson }}</arg_value>{% endfor %}\n</tool_call>",
    ),
    "minimax": _like(
        "<minimax:tool_call></minimax:tool_call>",
        f'\n<minimax:tool_call>\n<invoke name="{_NAME}">{_PAIRS}\n'
        '<parameter name="{{ k }}">{{ v }}</parameter>{% endfor %}\n</invoke>\n'
        "</minimax:tool_call>",
    ),
    # Takes ids of nine letters alone.
    "mistral": _like(
        "[TOOL_CALLS]",
        "{% if call.id|length != 9 %}{{ raise_exception('no id') }}{% endif %}"
        '[TOOL_CALLS][{"name": "' + _NAME + '", "arguments": '
        "{{ call.function.arguments | tojson }}}]",
    ),
    # Says which tool it is by the id alone.
    "kimi": _like(
        "<|tool_calls_section_begin|>",
        _KIMI_CALL.replace("functions.{}:0", "{}").format(
            "{{ call.id }}", "{{ call.function.arguments | tojson }}"
        ),
    ),
    # Joins the arguments to other text, so they must be text.
    "deepseek": _like(
        "```json",
        _DEEPSEEK_CALL.format(_NAME, "{{ '' + call['function']['arguments'] }}"),
    ),
    "harmony": _like(
        "<|channel|>",
        _HARMONY_CALL.format(_NAME, "{{ call.function.arguments | tojson }}"),
    ),
}

ANSWERS = {
    "hermes": f'<tool_call>\n{{"name": "weather", "arguments": {_JSON}}}\n</tool_call>',
    "qwen-coder": (
        "<tool_call>\n<function=weather>\n<parameter=city>\nBern\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    "glm": (
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bern</arg_value>\n"
        "</tool_call>"
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Bern'
        "</parameter>\n</invoke>\n</minimax:tool_call>"
    ),
    "mistral": f'[TOOL_CALLS][{{"name": "weather", "arguments": {_JSON}}}]',
    "kimi": _KIMI_CALL.format("weather", _JSON),
    "deepseek": _DEEPSEEK_CALL.format("weather", _JSON),
    "harmony": _HARMONY_CALL.format("weather", _JSON),
}
