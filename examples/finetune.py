"""Supervised fine-tuning of a small chat model, from a recipe that was written on an A100.

    bash examples/run.sh

On a T4 it has several faults, and `t4lint examples/finetune.py examples/run.sh` names them.
"""

import argparse
from dataclasses import dataclass

import torch
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling
from trl import SFTConfig, SFTTrainer


@dataclass
class ModelSettings:
    name: str = "Qwen/Qwen2.5-0.5B"
    attention: str = "flash_attention_2"
    max_length: int = 2048


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--learning_rate", type=float, default=2e-5)
    parser.add_argument("--per_device_batch_size", type=int, default=8)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--tf32", type=bool, default=False)
    return parser.parse_args()


def precision():
    """bf16 where the GPU can, fp16 elsewhere."""
    bf16 = torch.cuda.is_bf16_supported()
    return {"bf16": bf16, "fp16": not bf16}


def perplexity(model, tokenizer, texts, batch_size):
    """Perplexity over held-out texts."""
    collate = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    rows = [tokenizer(text, truncation=True, max_length=512) for text in texts]
    loader = DataLoader(rows, batch_size=batch_size, collate_fn=collate, pin_memory=False)
    losses = []
    model.eval()
    with torch.no_grad():
        for batch in loader:
            batch = {name: tensor.to("cuda", non_blocking=True) for name, tensor in batch.items()}
            losses.append(model(**batch).loss)
    return torch.stack(losses).mean().exp().item()


def main():
    cli = parse_args()
    settings = ModelSettings()
    tokenizer = AutoTokenizer.from_pretrained(settings.name)
    model = AutoModelForCausalLM.from_pretrained(
        settings.name, dtype=torch.float32, attn_implementation=settings.attention
    )
    data = load_dataset("trl-lib/Capybara")

    args = SFTConfig(
        output_dir=cli.output_dir,
        learning_rate=cli.learning_rate,
        num_train_epochs=cli.epochs,
        per_device_train_batch_size=cli.per_device_batch_size,
        gradient_accumulation_steps=cli.gradient_accumulation_steps,
        max_length=settings.max_length,
        gradient_checkpointing=False,
        tf32=cli.tf32,
        report_to="none",
        **precision(),
    )
    trainer = SFTTrainer(model=model, args=args, train_dataset=data["train"], processing_class=tokenizer)
    trainer.train()
    trainer.save_model(cli.output_dir)

    texts = [row["messages"][0]["content"] for row in data["test"]]
    print(f"perplexity: {perplexity(trainer.model, tokenizer, texts, cli.per_device_batch_size):.2f}")


if __name__ == "__main__":
    main()
