"""bitsandbytes: 8-bit optimizers and quantized layers (read in 0.39 to 0.50)."""

from __future__ import annotations

from t4lint.interpret.values import Abstract, Unknown
from t4lint.libraries.api import Call, calls
from t4lint.libraries.torch import layer, new_optimizer


@calls("bitsandbytes.optim.*")
def optimizer(call: Call) -> Abstract:
    return new_optimizer(call, call.name.rpartition(".")[2])


@calls("bitsandbytes.nn.*")
def quantized_layer(call: Call) -> Abstract:
    return layer(call)


@calls("bitsandbytes.*")
def anything(call: Call) -> Abstract:
    return Unknown(f"what {call.name} returns is not known")
