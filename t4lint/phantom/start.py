"""Put the phantom in place, after another process has shown that this torch takes it."""

# os.path is loaded anyway; pathlib would cost every process its import.
# ruff: noqa: PTH100, PTH120

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Any

from . import backend
from .tell import Card, Tell

SECONDS = 240  # that the trial may take: importing torch twice at once, on a machine with much to do
MORE = 10  # seconds to say where it stands
TRIED = "T4LINT_PHANTOM_TRIED"  # set to the version of torch that took it, for the processes below
TRIAL = """
import importlib.util, os, sys
folder = sys.argv[1]
found = importlib.util.spec_from_file_location(
    "phantom", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
)
sys.modules["phantom"] = importlib.util.module_from_spec(found)
import phantom.start
import faulthandler
faulthandler.dump_traceback_later(float(sys.argv[2]), exit=True)
phantom.start.trial()
os._exit(0)
"""


class Phantom:
    """What stands between the program and a card that is not there."""

    def __init__(self, card: Card, tell: Tell) -> None:
        from .ledger import Ledger
        from .membrane import Membrane

        self.card = card
        self.ledger = Ledger(tell, card.usable)
        self.membrane = Membrane(tell, self.ledger)

    def labels(self, optimizer: Any) -> None:
        """Before a step: which storages are weights, gradients, and the optimizer's own."""
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._label(parameter, "weights")
                self._label(parameter.grad, "gradients")
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self._label(value, "optimizer")

    def weights(self, module: Any) -> None:
        """All parameters and buffers of a module, the frozen ones too."""
        for tensor in (*module.parameters(), *module.buffers()):
            self._label(tensor, "weights")
            scales = getattr(tensor, "quant_state", None)  # of bitsandbytes, which may be quantized once more
            for part in (scales, getattr(scales, "state2", None)):
                self._label(getattr(part, "absmax", None), "weights")

    def _label(self, tensor: Any, kind: str) -> None:
        tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor: this rank's share
        if hasattr(tensor, "untyped_storage"):
            self.ledger.label(tensor.untyped_storage(), kind)


def install(torch: Any, told: dict[str, Any], tell: Tell) -> Phantom:
    """Called once torch has been imported. Raises where the patches below Python do not take."""
    card = Card(told)
    refused = works(torch)
    if refused:
        raise backend.Unpatchable(refused)
    backend.install(torch, card.count)
    return _python_side(torch, card, tell)


def _python_side(torch: Any, card: Card, tell: Tell) -> Phantom:
    from . import attention, distributed, facade, kernels, legacy, libraries, parameters, tensors

    phantom = Phantom(card, tell)
    libraries.install()
    kernels.install()
    legacy.install()
    facade.install(torch, card, phantom.ledger)
    attention.install(torch, card, tell, tensors.is_fake)
    tensors.install(phantom.membrane)
    parameters.install(phantom.membrane)
    distributed.install(phantom.membrane)
    phantom.membrane.__enter__()
    return phantom


def works(torch: Any) -> str:
    """Try it in another process: "" where it does, else why it does not. A crash there hurts nobody.

    A process of its own and no fork: torch is still being imported here, and the threads of autograd import it too. It
    writes into a file, not into a pipe that a grandchild could keep open, and says itself where it stands at the end of
    its time: so nobody waits longer.
    """
    if os.environ.get(TRIED) == torch.__version__:
        return ""
    folder = os.path.dirname(os.path.abspath(__file__))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("T4LINT_")}
    with tempfile.TemporaryFile() as said:
        done = subprocess.Popen(
            [sys.executable, "-c", TRIAL, folder, str(SECONDS)], env=environ, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=said, start_new_session=hasattr(os, "killpg"),
        )  # fmt: skip
        try:
            code = done.wait(SECONDS + MORE)
        except subprocess.TimeoutExpired:
            done.kill()
            return f"the trial of the phantom with torch {torch.__version__} did not end in {SECONDS} s"
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
    if code:
        return f"the trial of the phantom with torch {torch.__version__} ended with {code}: {(lines or [''])[-1]}"
    os.environ[TRIED] = torch.__version__
    return ""


def trial() -> None:
    """A training step on fakes; raises, or worse, where this torch does not take it."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    backend.install(torch, 1)
    FakeTensorMode.avoid_device_init = property(lambda self: True)
    with FakeTensorMode():
        weight = torch.empty(8, 8, device="cuda", requires_grad=True)
        loss = (torch.empty(4, 8, device="cuda") @ weight).sum()
        loss.backward()
    if weight.grad is None or weight.grad.device.type != "cuda":
        raise backend.Unpatchable("no gradient")
