"""TRL's SFTTrainer with LoRA on a Llama of 1.1 billion parameters from its configuration, and text made up here."""

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = [f"word{number}" for number in range(500)]
texts = [" ".join(words[(start * 7 + step) % 500] for step in range(300)) for start in range(64)]
raw = Tokenizer(models.WordLevel(unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.Whitespace()
raw.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["<unk>", "<s>", "</s>"]))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
)

config = LlamaConfig(
    vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
    num_key_value_heads=4, max_position_embeddings=2048, dtype=torch.float16,
)  # fmt: skip
model = LlamaForCausalLM(config).to(torch.float16)
args = SFTConfig(
    output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_length=256, fp16=True,
    gradient_checkpointing=True, logging_steps=1, report_to="none", max_steps=10,
)  # fmt: skip
trainer = SFTTrainer(
    model=model, args=args, train_dataset=Dataset.from_dict({"text": texts}), processing_class=tokenizer,
    peft_config=LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"),
)  # fmt: skip
trainer.train()
