"""The trace vocabulary: the contract between interpreter, recorder, rules and reports."""

from t4lint.trace.events import (
    NOT_SAID,
    Allocation,
    Attention,
    Autocast,
    Backward,
    Call,
    Collective,
    Compile,
    Copy,
    DataRead,
    DeviceChoice,
    Engine,
    EnvironmentVariable,
    Evaluation,
    Event,
    Exit,
    Forward,
    GradientRead,
    HostSync,
    InstanceRequest,
    Keep,
    Key,
    Launch,
    Loader,
    Model,
    Operation,
    Optimizer,
    Predicate,
    ProcessGroup,
    Requirement,
    Save,
    Scaler,
    Setting,
    Step,
    Switch,
    TrainerFile,
    Wrap,
    ZeroGrad,
)
from t4lint.trace.location import How, Location, Origin
from t4lint.trace.trace import Basis, Gap, Trace, release
from t4lint.trace.values import FALSE, OF_LOCAL_RANK, OF_PROCESS, OF_RANK, TRUE, Fact, Value, unknown, whole_number

__all__ = [
    "FALSE", "NOT_SAID", "OF_LOCAL_RANK", "OF_PROCESS", "OF_RANK", "TRUE", "Allocation", "Attention", "Autocast",
    "Backward", "Basis", "Call", "Collective", "Compile", "Copy", "DataRead", "DeviceChoice", "Engine", "EnvironmentVariable",
    "Evaluation", "Event", "Exit", "Fact", "Forward", "Gap", "GradientRead", "HostSync", "How", "InstanceRequest",
    "Keep", "Key", "Launch", "Loader", "Location", "Model", "Operation", "Optimizer", "Origin", "Predicate",
    "ProcessGroup", "Requirement", "Save", "Scaler", "Setting", "Step", "Switch", "Trace", "TrainerFile", "Value", "Wrap",
    "ZeroGrad", "release", "unknown", "whole_number",
]  # fmt: skip
