"""How many parameters a project's own model has: exactly, or not known. What real programs taught (scripts/differential.py)."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from t4lint.devices import find_target
from t4lint.findings import Problem
from t4lint.interpret.project import Project
from t4lint.interpret.run import interpret
from t4lint.interpret.worlds import Worlds
from t4lint.trace import Step

PROGRAM = """
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            return self.linear(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            MADE
            self.head = nn.Linear(4, 1)

        def forward(self, x):
            return self.head(x)

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
"""
HEAD, LAYER = 5, 20


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("self.layers = nn.ModuleList([Layer() for _ in range(6)])", HEAD + 6 * LAYER),
        ("self.layers = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])", HEAD + 3 * LAYER),
        ("self.layers = nn.ModuleList([Layer() for _ in range(500)])", None),  # more than are followed
        ("self.layers = nn.ModuleList()\nfor _ in range(6):\n    self.layers.append(Layer())", None),
        ("parts = []\nfor _ in range(6):\n    parts.append(Layer())\nself.layers = nn.Sequential(*parts)", None),
        ("parts = []\nfor kind in (Layer, Layer):\n    parts.append(kind())\nself.layers = nn.Sequential(*parts)", HEAD + 2 * LAYER),
        ("self.bias = nn.Parameter(torch.zeros(7))", None),
        ("self.table = nn.Embedding.from_pretrained(torch.zeros(7, 4))", None),
        ("self.layers = [Layer()]", HEAD),  # a plain list registers nothing
        ("self.one = Layer()\nself.same = self.one", HEAD + LAYER),
        ("self.table = nn.Embedding(len(set('a b a c'.split())), 4)", HEAD + 12),
        ("words = {'a', 'b', 'a'}\nwords.add('b')\nself.table = nn.Embedding(len(words), 4)", HEAD + 8),
    ],
)  # fmt: skip
def test_parameters_of_a_step(tmp_path: Path, made: str, count: int | None) -> None:
    text = textwrap.dedent(PROGRAM).lstrip().replace("MADE", textwrap.indent(made, " " * 8).strip())
    (tmp_path / "train.py").write_text(text)
    result = interpret(Project(tmp_path, tmp_path), tmp_path / "train.py", find_target("cpu"), {})
    assert not isinstance(result, Problem)
    (trace,) = Worlds(result.machine, result.segments[0], {}, launched=True).traces((Step,))
    found = {step.parameters.it if step.parameters.known else None for step in trace.all(Step)}
    assert found == {count}


LAYERS = """
Linear(3, 5)
Linear(3, 5, False)
Bilinear(3, 4, 5)
Bilinear(3, 4, 5, bias=False)
Embedding(7, 3)
EmbeddingBag(7, 3)
PReLU()
PReLU(4)
Conv1d(4, 8, 3)
Conv2d(4, 8, 3, groups=2)
Conv2d(4, 8, (3, 5), bias=False)
Conv2d(4, 8, 3, 1, 0, 1, 4, False)
Conv3d(2, 4, (1, 3, 3))
ConvTranspose1d(4, 8, 3)
ConvTranspose2d(4, 8, 3, groups=4)
ConvTranspose3d(4, 8, kernel_size=2)
BatchNorm1d(6)
BatchNorm2d(6, affine=False)
BatchNorm3d(6, 1e-5, 0.1, False)
SyncBatchNorm(6)
InstanceNorm2d(6)
InstanceNorm2d(6, affine=True)
GroupNorm(2, 6)
GroupNorm(2, 6, 1e-5, False)
LayerNorm(6)
LayerNorm([4, 6])
LayerNorm((4, 6), bias=False)
LayerNorm(6, elementwise_affine=False)
RMSNorm(6)
LocalResponseNorm(2)
LSTM(3, 5)
LSTM(3, 5, 2, bidirectional=True)
LSTM(3, 5, 2, False)
LSTM(3, 5, bias=False, batch_first=True)
GRU(3, 5, num_layers=3)
RNN(3, 5)
RNN(3, 5, 2, 'relu', False)
MultiheadAttention(8, 2)
MultiheadAttention(8, 2, bias=False)
TransformerEncoderLayer(8, 2)
TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, bias=False)
TransformerDecoderLayer(8, 2, 16)
TransformerDecoderLayer(8, 2, 16, bias=False)
Dropout(0.1)
ReLU()
Identity()
Flatten()
MaxPool2d(2)
Upsample(2)
"""


@pytest.mark.parametrize("layer", LAYERS.split("\n")[1:-1])
def test_layers_of_torch(tmp_path: Path, layer: str) -> None:
    """The same number as the real layer has."""
    torch = pytest.importorskip("torch")
    real = sum(parameter.numel() for parameter in eval(f"nn.{layer}", {"nn": torch.nn}).parameters())
    test_parameters_of_a_step(tmp_path, f"self.layer = nn.{layer}", HEAD + real)
