"""Templates built like those of the model families, and what they must render.

The wording is ours; the structure is theirs: namespaces that loops write to, reversed
and cut lists, macros that call each other, whitespace control, tests of types, text
methods, JSON with its options, dates and refusals.

Messages: a system text, a question, an answer with thoughts, a second question.
"""

from pathlib import Path

__all__ = ["MESSAGES", "RENDERED", "TEMPLATES"]

MESSAGES = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello"},
    {"role": "user", "content": "Why?"},
]

_FOLDER = Path(__file__).parent / "templates"
TEMPLATES = {path.stem: path.read_text("utf-8") for path in _FOLDER.glob("*.jinja")}
RENDERED: dict[str, str] = {}

RENDERED["qwen3"] = (
    "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    "<|im_start|>assistant\nHello<|im_end|>\n<|im_start|>user\nWhy?<|im_end|>\n"
    "<|im_start|>assistant\n"
)
RENDERED["deepseek-v3"] = (
    "<s>Be kind.<|User|>Hi<|Assistant|>\n\nHello<|end|><|User|>Why?<|Assistant|>"
)
RENDERED["glm4"] = (
    "[gMASK]<sop><|system|>\nBe kind.<|user|>\nHi<|assistant|>\n<think></think>\n"
    "Hello<|user|>\nWhy?<|assistant|>"
)
RENDERED["gpt-oss"] = (
    "<|start|>system<|message|>You are a model.\nCurrent date: 2026-11-29\n\n"
    "Reasoning: medium\n{a: number, b?: string | null} | null<|end|>"
    "<|start|>developer<|message|># Instructions\n\nBe kind.<|end|>"
    "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>"
    "Hello<|end|><|start|>user<|message|>Why?<|end|><|start|>assistant"
)
RENDERED["minimax-m2"] = (
    "]~!b[]~b]system\nBe kind.[e~[\n]~b]user\nHi[e~[\n]~b]ai\nHello[e~[\n"
    "]~b]user\nWhy?[e~[\n]~b]ai\n<think>\n"
)
RENDERED["olmoe"] = (
    "<s><|system|>\nBe kind.\n<|user|>\nHi\n<|assistant|>\n\nhm\n</think>\n\n"
    "Hello</s>\n<|user|>\nWhy?\n<|assistant|>\n"
)
RENDERED["kimi-k2"] = (
    "<|im_system|>system<|im_middle|>Be kind.<|im_end|><|im_user|>user<|im_middle|>Hi"
    "<|im_end|><|im_assistant|>assistant<|im_middle|><think>\nhm\n</think>\n\nHello"
    "<|im_end|><|im_user|>user<|im_middle|>Why?<|im_end|>"
    '{"a":null,"b":[1,"é"]}<|im_assistant|>assistant<|im_middle|>'
)
RENDERED["trained-marks"] = (
    "User: HI;Hello1<2<32Why?system,user,assistant"
    '{\n   "a": {\n     "b": 1\n   }\n }29 Nov 2026'
)
RENDERED["mixtral"] = "<s> [INST] Be kind.\n\nHi [/INST] Hello</s> [INST] Why? [/INST]"
