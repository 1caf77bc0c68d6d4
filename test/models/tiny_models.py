# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Tiny transformers with random weights, as modules that export."""

from typing import Any, Callable, Dict, Tuple

import torch
import transformers

Made = Tuple[torch.nn.Module, Tuple[torch.Tensor, ...]]


class _Output(torch.nn.Module):
    """Calls a model by keyword and returns one of its outputs."""

    def __init__(self, model: torch.nn.Module, names: Tuple[str, ...], output: str):
        super().__init__()
        self.model = model
        self.names = names
        self.output = output

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        result = self.model(**dict(zip(self.names, inputs)), **self.options())
        return getattr(result, self.output)

    def options(self) -> Dict[str, Any]:
        return {"return_dict": True}


class _NoCache(_Output):
    def options(self) -> Dict[str, Any]:
        return {"return_dict": True, "use_cache": False}


class _Resized(_Output):
    def options(self) -> Dict[str, Any]:
        return {"return_dict": True, "interpolate_pos_encoding": True}


def _tokens(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 60 + 1


def llama() -> Made:
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model = transformers.LlamaForCausalLM(config)
    return _NoCache(model, ("input_ids",), "logits"), (_tokens(1, 16),)


def bert() -> Made:
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        attn_implementation="eager",
    )
    model = transformers.BertModel(config)
    return _Output(model, ("input_ids",), "last_hidden_state"), (_tokens(1, 16),)


def swin() -> Made:
    config = transformers.SwinConfig(
        image_size=32,
        patch_size=2,
        embed_dim=16,
        depths=[2, 2],
        num_heads=[2, 4],
        window_size=4,
    )
    model = transformers.SwinModel(config)
    pixels = torch.randn(1, 3, 32, 32)
    return _Output(model, ("pixel_values",), "last_hidden_state"), (pixels,)


def whisper() -> Made:
    config = transformers.WhisperConfig(
        vocab_size=64,
        num_mel_bins=16,
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_source_positions=20,
        max_target_positions=32,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        attn_implementation="eager",
    )
    model = transformers.WhisperForConditionalGeneration(config)
    names = ("input_features", "decoder_input_ids")
    return _NoCache(model, names, "logits"), (torch.randn(1, 16, 40), _tokens(1, 8))


def t5() -> Made:
    config = transformers.T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = transformers.T5ForConditionalGeneration(config)
    names = ("input_ids", "decoder_input_ids")
    return _NoCache(model, names, "logits"), (_tokens(1, 12), _tokens(1, 6))


def vit_resized() -> Made:
    config = transformers.ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        image_size=32,
        patch_size=8,
        attn_implementation="eager",
    )
    model = transformers.ViTModel(config, add_pooling_layer=False)
    pixels = torch.randn(1, 3, 48, 48)
    return _Resized(model, ("pixel_values",), "last_hidden_state"), (pixels,)


MODELS: Dict[str, Callable[[], Made]] = {
    "llama": llama,
    "bert": bert,
    "swin": swin,
    "whisper": whisper,
    "t5": t5,
    "vit_resized": vit_resized,
}


def make(name: str) -> Made:
    """Returns the model of this name in eval mode, and inputs for it."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    return model.eval(), inputs
