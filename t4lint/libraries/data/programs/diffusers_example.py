# What the training examples of diffusers have in common (read in 0.39): the rest differs from one to the other.
import argparse

import torch
from accelerate import Accelerator
from t4lint_programs import trains

parser = argparse.ArgumentParser()
parser.add_argument("--pretrained_model_name_or_path")
parser.add_argument("--mixed_precision", default=None)
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--allow_tf32", action="store_true")
args, _ = parser.parse_known_args()

accelerator = Accelerator(
    gradient_accumulation_steps=args.gradient_accumulation_steps, mixed_precision=args.mixed_precision
)
if args.allow_tf32:
    torch.backends.cuda.matmul.allow_tf32 = True
trains(accelerator)
