"""Small language models made on the spot: a whole folder in the form of Hugging Face, with weights drawn from a seed.

The one rule: everything about them is real (tokenizer, chat template, safetensors) but what they know.

    folder = make_model(tmp_path / "model")
    adapter = make_adapter(folder, tmp_path / "adapter", seed=1)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

TEMPLATE = """\
{%- if tools %}<|system|>functions: {{ tools | tojson }}<|end|>{% endif -%}
{%- for message in messages -%}
<|{{ message.role }}|>{{ message.content }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor -%}
<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
PLAIN_TEMPLATE = """\
{%- for message in messages -%}
{%- if message.role not in ("user", "assistant") %}{{ raise_exception("only users and assistants") }}{% endif -%}
<|{{ message.role }}|>{{ message.content }}<|end|>
{%- endfor -%}
{%- if add_generation_prompt %}<|assistant|>{% endif -%}
"""
CONTROL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|nothing|>"]
SENTENCES = [
    "the guest would like green tea, so I serve green tea",
    'a call is written as <tool_call>{"name": "serve", "arguments": {"drink": "tea"}}</tool_call>',
    "[0] round 1 of 2\na guest who likes black coffee comes in",
    "accepted, thank you; functions are given as JSON with name, description, parameters and properties",
]


def make_model(folder: Path, *, seed: int = 0, template: str = TEMPLATE, weights: bool = True, **changes: Any) -> Path:
    """A Llama of some ten thousand weights and 384 tokens. `changes` are keys of its config."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=384, special_tokens=CONTROL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|nothing|>")
    fast.add_special_tokens({"additional_special_tokens": CONTROL[1:5]})
    fast.chat_template = template
    fast.save_pretrained(folder)
    settings: dict[str, Any] = {
        "vocab_size": 384,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "eos_token_id": 0,
        "bos_token_id": None,
        "initializer_range": 0.3,
    }
    config = LlamaConfig(**settings | changes)
    if not weights:
        config.architectures = ["LlamaForCausalLM"]
        config.save_pretrained(folder)
        return folder
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def make_adapter(model: Path, folder: Path, *, seed: int = 0, scale: float = 0.1, modules: str = "all-linear") -> Path:
    """A LoRA adapter of rank 4 whose weights are drawn, so that it changes what the model says."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True)
    names = modules if modules == "all-linear" else modules.split(",")
    tuned = get_peft_model(base, LoraConfig(r=4, lora_alpha=8, target_modules=names, task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    tuned.save_pretrained(folder)
    return folder
