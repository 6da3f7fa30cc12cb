"""The trace vocabulary: the contract between interpreter, recorder, rules and reports."""

from t4lint.trace.events import (
    NOT_SAID,
    Attention,
    Autocast,
    Backward,
    Call,
    Collective,
    Compile,
    Copy,
    DataRead,
    Engine,
    EnvironmentVariable,
    Evaluation,
    Event,
    Exit,
    Forward,
    GradientRead,
    HostSync,
    Keep,
    Key,
    Launch,
    Loader,
    Model,
    Operation,
    Optimizer,
    Predicate,
    ProcessGroup,
    Save,
    Scaler,
    Setting,
    Step,
    Switch,
    Wrap,
    ZeroGrad,
)
from t4lint.trace.location import How, Location, Origin
from t4lint.trace.trace import Basis, Gap, Trace, release
from t4lint.trace.values import FALSE, TRUE, Fact, Value, unknown

__all__ = [
    "FALSE", "NOT_SAID", "TRUE", "Attention", "Autocast", "Backward", "Basis", "Call", "Collective", "Compile", "Copy",
    "DataRead", "Engine", "EnvironmentVariable", "Evaluation", "Event", "Exit", "Fact", "Forward", "Gap", "GradientRead",
    "HostSync", "How", "Keep", "Key", "Launch", "Loader", "Location", "Model", "Operation", "Optimizer", "Origin",
    "Predicate", "ProcessGroup", "Save", "Scaler", "Setting", "Step", "Switch", "Trace", "Value", "Wrap", "ZeroGrad", "release",
    "unknown",
]  # fmt: skip
