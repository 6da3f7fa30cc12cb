"""As `verify_me.py`, with the Trainer of Lightning.

Run it with `t4lint verify -- python verify_lightning.py`.
"""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,)))

# Refuted: the source shows no end to it, but Lightning calls what switches it off before it trains.
torch.autograd.set_detect_anomaly(True)


class Quick(lightning.Callback):
    def on_train_start(self, trainer, module):
        torch.autograd.set_detect_anomaly(False)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def training_step(self, batch, index):
        inputs, targets = batch
        return nn.functional.cross_entropy(self.net(inputs), targets)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


# Confirmed: the loader is built like this, whatever the machine.
train = DataLoader(data, batch_size=64, shuffle=True, pin_memory=False)
# Undecided on a CPU: what a T4 answers, a T4 shows, or a phantom of one.
precision = "bf16-mixed" if torch.cuda.is_bf16_supported() else "16-mixed" if torch.cuda.is_available() else "32-true"
trainer = lightning.Trainer(
    max_epochs=1, precision=precision, callbacks=[Quick()], logger=False, enable_checkpointing=False
)
trainer.fit(Classifier(), train)

# Not exercised: the run is stopped after three optimizer steps.
test = DataLoader(data, batch_size=64, pin_memory=False)
print(sum(len(inputs) for inputs, targets in test))
