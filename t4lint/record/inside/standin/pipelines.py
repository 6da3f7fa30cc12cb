"""Configurations of the parts of diffusion pipelines that programs fine-tune, as they are published.

Sources: the config.json files of the repositories on the Hub, by their folders; what is not said here is the default of the class.
"""

from __future__ import annotations

from typing import Any

SD1 = ("stable-diffusion-v1-4", "stable-diffusion-v1-5", "stable-diffusion-v1-1", "stable-diffusion-v1-2")
SD2 = ("stable-diffusion-2", "stable-diffusion-2-base", "stable-diffusion-2-1", "stable-diffusion-2-1-base")
SDXL = ("stable-diffusion-xl-base-1.0", "sdxl-turbo")

VAE = {
    "in_channels": 3, "out_channels": 3, "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
    "down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4, "latent_channels": 4,
    "sample_size": 512,
}  # fmt: skip
UNET = {
    "sample_size": 64, "in_channels": 4, "out_channels": 4, "block_out_channels": [320, 640, 1280, 1280],
    "layers_per_block": 2, "attention_head_dim": 8, "cross_attention_dim": 768,
}  # fmt: skip
UNET_2 = {**UNET, "attention_head_dim": [5, 10, 20, 20], "cross_attention_dim": 1024, "use_linear_projection": True}
UNET_XL = {
    "sample_size": 128, "in_channels": 4, "out_channels": 4, "block_out_channels": [320, 640, 1280],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"], "layers_per_block": 2,
    "attention_head_dim": [5, 10, 20], "cross_attention_dim": 2048, "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True, "addition_embed_type": "text_time", "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
SCHEDULER = {
    "num_train_timesteps": 1000, "beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear",
    "clip_sample": False, "prediction_type": "epsilon",
}  # fmt: skip
TEXT = {
    "model_type": "clip_text_model", "architectures": ["CLIPTextModel"], "hidden_size": 768, "intermediate_size": 3072,
    "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 49408, "max_position_embeddings": 77,
    "projection_dim": 768, "hidden_act": "quick_gelu", "dtype": "float32",
}  # fmt: skip
TEXT_H = {
    **TEXT,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 23,
    "num_attention_heads": 16,
    "hidden_act": "gelu",
}
TEXT_G = {
    **TEXT, "architectures": ["CLIPTextModelWithProjection"], "hidden_size": 1280, "intermediate_size": 5120,
    "num_hidden_layers": 32, "num_attention_heads": 20, "projection_dim": 1280, "hidden_act": "gelu",
}  # fmt: skip


def network(name: str, subfolder: str, kind: str) -> dict[str, Any] | None:
    """The configuration of a network or scheduler; `kind` is the class that is asked for."""
    short = name.rpartition("/")[2].lower()
    if short not in (*SD1, *SD2, *SDXL) and not short.startswith(("sdxl-vae", "sd-vae-ft")):
        return None
    if "Scheduler" in kind:
        return (
            {**SCHEDULER, "prediction_type": "v_prediction"}
            if short in ("stable-diffusion-2", "stable-diffusion-2-1")
            else SCHEDULER
        )
    if kind == "AutoencoderKL":
        return {**VAE, "scaling_factor": 0.13025, "sample_size": 1024} if short in SDXL else VAE
    if kind == "UNet2DConditionModel" and subfolder == "unet":
        return UNET_XL if short in SDXL else UNET_2 if short in SD2 else UNET
    return None


def text_model(name: str, subfolder: str) -> dict[str, Any] | None:
    """The configuration of a text encoder, which is a model of transformers; its tokenizer's folder has the same."""
    short = name.rpartition("/")[2].lower()
    if subfolder in ("text_encoder", "tokenizer"):
        return TEXT if short in (*SD1, *SDXL) else TEXT_H if short in SD2 else None
    if subfolder in ("text_encoder_2", "tokenizer_2") and short in SDXL:
        return TEXT_G
    return None
