"""A ResNet-18 on 32x32 images with channels last, AMP, and a validation pass with metrics on the CPU."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.short = (
            nn.Identity() if stride == 1 and before == after else nn.Conv2d(before, after, 1, stride, bias=False)
        )

    def forward(self, x):
        return torch.relu(self.body(x) + self.short(x))


def resnet():
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    before = 64
    for after, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Residual(before, after, stride))
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


torch.backends.cudnn.benchmark = True
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
data = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))
train = DataLoader(data, batch_size=128, shuffle=True, pin_memory=True)
model = resnet().to(device, memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
scaler = torch.amp.GradScaler("cuda")

for epoch in range(2):
    model.train()
    for images, labels in train:
        images = images.to(device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    schedule.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for images, labels in train:
            predicted = model(images.to(device)).argmax(1).cpu()
            right += (predicted == labels).sum().item()
    print(epoch, right / len(data), f"{torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
