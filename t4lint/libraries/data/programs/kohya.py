# What the training scripts of sd-scripts have in common (read in 0.9 and 0.10, library/train_util.py).
from accelerate import Accelerator
from t4lint_programs import given, trains

settings = given("config_file")
accelerator = Accelerator(
    gradient_accumulation_steps=settings.get("gradient_accumulation_steps", 1),
    mixed_precision=settings.get("mixed_precision", "no"),
)
trains(accelerator)
