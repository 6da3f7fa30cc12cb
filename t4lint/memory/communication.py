"""Seconds on the wire and in matrix products, in closed form, as (low, high) bands."""

from __future__ import annotations

from t4lint.memory.estimate import Band

# Ring lower bound of an all-reduce: each rank sends and receives 2(n-1)/n of the data (nccl-tests PERFORMANCE.md).
_ALL_REDUCE = 2.0
# The share of a NIC's rate that is expected on AWS and GCP; an assumption.
EXPECTED_SHARE = 0.7
# Elsewhere, what sockets were seen to reach at most on machines of a T4's class, whatever the NIC: 1.8 to 4.7 Gbit/s
# (accelerate docs, nccl-tests on three T4 nodes, transformers#3274).
SOCKET_CAP_GBPS = 5.0
FAST_PROVIDERS = frozenset({"AWS", "GCP"})
# Between GPUs of one machine without NVLink: bytes a second. High: NCCL's cap for PCIe 3.0 x16 (NCCL 2.30 tuning
# table). Low: all-reduce of two Turing GPUs without peer access, 3.4 (2 x TITAN RTX) and 3.6 (2 x T4) GB/s.
PCIE_RATE: Band = (3.4e9, 12e9)
# FLOPs a parameter and token: 2 forward, 4 backward, and 2 again where the forward is recomputed. Frozen weights need
# no weight gradient, and so 2 less.
FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT = 2, 2, 2


def allreduce_seconds(
    parameters: float,
    bytes_per_parameter: float,
    ranks: int,
    gbps: float,
    *,
    provider: str = "",
    sustained_gbps: float | None = None,
) -> Band:
    """Seconds of one ring all-reduce over the NIC of each node.

    `gbps` is the NIC's highest rate in Gbit/s: the lower edge runs it in full. `sustained_gbps` (its baseline, where it
    differs) bounds the upper edge: 70 % of it on AWS and GCP, elsewhere at most 5 Gbit/s.
    """
    sent = ring_bytes(parameters * bytes_per_parameter, ranks)
    expected = EXPECTED_SHARE * (sustained_gbps or gbps)
    if provider not in FAST_PROVIDERS:
        expected = min(expected, SOCKET_CAP_GBPS)
    return (sent / _rate(gbps), sent / _rate(expected))


def pcie_seconds(parameters: float, bytes_per_parameter: float, ranks: int) -> Band:
    """Seconds of one ring all-reduce between the GPUs of one machine, over PCIe 3.0 without NVLink."""
    sent = ring_bytes(parameters * bytes_per_parameter, ranks)
    return (sent / PCIE_RATE[1], sent / PCIE_RATE[0])


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes."""
    return _ALL_REDUCE * (ranks - 1) / ranks * size if ranks > 1 else 0.0


def compute_seconds(
    parameters: float, tokens: float, flops: float, *, trainable: float | None = None, recompute: bool = False
) -> float:
    """Seconds of matrix products for `tokens` tokens at `flops` FLOP/s; attention scores are left out.

    6 FLOPs a parameter and token, 8 with recomputation; 4 and 6 for frozen parameters.
    """
    trained = parameters if trainable is None else trainable
    every = FORWARD * (2 if recompute else 1) + INPUT_GRADIENT
    return (every * parameters + WEIGHT_GRADIENT * trained) * tokens / flops


def break_even_tokens(
    bytes_per_parameter: float, ranks: int, gbps: float, flops: float, *, share: float = 1.0, recompute: bool = False
) -> float:
    """Tokens a rank and optimizer step at which an all-reduce takes as long as the matrix products.

    It does not depend on the model's size. `share` is the part of the NIC's rate that is reached.
    """
    per_token = FORWARD * (2 if recompute else 1) + INPUT_GRADIENT + WEIGHT_GRADIENT
    return ring_bytes(bytes_per_parameter, ranks) / _rate(share * gbps) * flops / per_token


def _rate(gbps: float) -> float:
    return gbps * 1e9 / 8
