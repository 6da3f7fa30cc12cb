"""GPUs, instances and their facts, as data with sources."""

from t4lint.devices.catalogue import Gpu, Instance, Target, UnknownTarget, find_target, gpus, instances, targets

__all__ = ["Gpu", "Instance", "Target", "UnknownTarget", "find_target", "gpus", "instances", "targets"]
