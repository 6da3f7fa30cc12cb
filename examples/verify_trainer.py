"""As `verify_me.py`, with the Trainer of transformers.

Run it with `t4lint verify -- python verify_trainer.py`.
"""

import torch
from torch.utils.data import DataLoader
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

config = BertConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=100)
model = BertForSequenceClassification(config)
data = [{"input_ids": torch.randint(0, 100, (16,)), "labels": torch.tensor(number % 2)} for number in range(64)]

# Refuted: the source shows no end to it, but the Trainer calls what switches it off before it trains.
torch.autograd.set_detect_anomaly(True)


class Quick(TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        torch.autograd.set_detect_anomaly(False)


args = TrainingArguments(
    output_dir="out",
    per_device_train_batch_size=4,
    report_to="none",
    # Undecided on a CPU: what a T4 answers, a T4 shows, or a phantom of one.
    bf16=torch.cuda.is_bf16_supported(),
    # Confirmed: the Trainer builds its loader like this, whatever the machine.
    dataloader_pin_memory=False,
)
trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[Quick()])
trainer.train()

# Not exercised: the run is stopped after three optimizer steps.
test = DataLoader(data, batch_size=8, pin_memory=False)
print(sum(len(batch["labels"]) for batch in test), trainer.evaluate(data))
