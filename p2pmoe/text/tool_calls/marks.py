"""Marks that more than one module names."""

__all__ = ["DEEPSEEK", "HARMONY", "KIMI"]


def _deepseek(*words: str) -> str:
    """Words joined by U+2581, between fullwidth bars."""
    return "<\uff5c" + "\u2581".join(words) + "\uff5c>"


DEEPSEEK = {
    "section": _deepseek("tool", "calls", "begin"),
    "section_end": _deepseek("tool", "calls", "end"),
    "call": _deepseek("tool", "call", "begin"),
    "call_end": _deepseek("tool", "call", "end"),
    "separator": _deepseek("tool", "sep"),
}
KIMI = {
    "section": "<|tool_calls_section_begin|>",
    "section_end": "<|tool_calls_section_end|>",
    "call": "<|tool_call_begin|>",
    "call_end": "<|tool_call_end|>",
    "separator": "<|tool_call_argument_begin|>",
}
HARMONY = {
    "start": "<|start|>",
    "channel": "<|channel|>",
    "message": "<|message|>",
    "end": "<|end|>",
    "constrain": "<|constrain|>",
}
