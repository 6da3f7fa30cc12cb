"""Seconds on the wire and in matrix products, in closed form, as (low, high) bands."""

from __future__ import annotations

from dataclasses import dataclass

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
# DDP starts to exchange with the first gradients: it can hide behind the backward, two thirds of the arithmetic. What
# gathers weights can hide behind all of it.
HIDDEN_BY_BACKWARD, HIDDEN_BY_ALL = 2 / 3, 1.0


@dataclass(frozen=True, slots=True)
class NetworkRate:
    """The network card of a node, in Gbit/s: its highest rate, and the one that it holds where that differs."""

    highest: float
    sustained: float | None = None
    provider: str = ""

    @property
    def expected(self) -> float:
        """Gbit/s that NCCL is expected to reach: 70 % of what holds; outside AWS and GCP 5 Gbit/s at most."""
        rate = EXPECTED_SHARE * (self.sustained or self.highest)
        return rate if self.provider in FAST_PROVIDERS else min(rate, SOCKET_CAP_GBPS)

    @property
    def band(self) -> Band:
        """(expected, highest) in bytes a second."""
        return (_rate(self.expected), _rate(self.highest))


def pcie_band() -> Band:
    """(expected, highest) bytes a second between GPUs of one machine, over PCIe 3.0 without NVLink."""
    return PCIE_RATE


def ring_share(ranks: int) -> float:
    """The part of a tensor that each rank of a ring sends when it is gathered or scattered."""
    return (ranks - 1) / ranks if ranks > 1 else 0.0


def allreduce_seconds(
    parameters: float,
    bytes_per_parameter: float,
    ranks: int,
    gbps: float,
    *,
    provider: str = "",
    sustained_gbps: float | None = None,
) -> Band:
    """Seconds of one ring all-reduce over the NIC of each node, at its highest rate `gbps` and at the expected one."""
    sent = ring_bytes(parameters * bytes_per_parameter, ranks)
    expected, highest = NetworkRate(gbps, sustained_gbps, provider).band
    return (sent / highest, sent / expected)


def pcie_seconds(parameters: float, bytes_per_parameter: float, ranks: int) -> Band:
    """Seconds of one ring all-reduce between the GPUs of one machine, over PCIe 3.0 without NVLink."""
    sent = ring_bytes(parameters * bytes_per_parameter, ranks)
    return (sent / PCIE_RATE[1], sent / PCIE_RATE[0])


def ring_bytes(size: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring all-reduce of `size` bytes."""
    return _ALL_REDUCE * ring_share(ranks) * size


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


def step_seconds(communication: Band, compute: Band, *, hidden: float = HIDDEN_BY_BACKWARD) -> Band:
    """Seconds of a step, from seconds on the wire and in matrix products.

    At best the exchange runs beside the part `hidden` of the arithmetic; at worst after all of it.
    """
    visible = (1 - hidden) * compute[0]
    return (max(compute[0], visible + communication[0]), compute[1] + communication[1])
