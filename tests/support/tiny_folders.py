"""The tiny models of the shared references, one folder for each architecture."""

__all__ = ["TINY_FOLDERS"]

TINY_FOLDERS = (
    "deepseek_v2",
    "deepseek_v3",
    "glm4_moe",
    "gpt_oss",
    "minimax_m2",
    "minimax_m3",
    "mixtral",
    "olmoe",
    "qwen2_moe",
    "qwen3_moe",
)
