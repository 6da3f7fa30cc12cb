# What `swift sft`, `swift pt` and `swift rlhf` do (read in ms-swift 4.6: cli/main.py, arguments/, model/utils.py, trainers/arguments.py).
import os
from dataclasses import dataclass

import torch
from peft import LoraConfig, get_peft_model
from t4lint_programs import changed, given
from transformers import (
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    HfArgumentParser,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


@dataclass
class SwiftArguments:
    model: str = None
    torch_dtype: str = None
    attn_impl: str = None
    device_map: str = None
    quant_method: str = None
    quant_bits: int = None
    bnb_4bit_compute_dtype: str = None
    bnb_4bit_quant_type: str = "nf4"
    bnb_4bit_use_double_quant: bool = True
    tuner_type: str = "lora"
    train_type: str = None
    lora_rank: int = 8
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    target_modules: list[str] = None
    modules_to_save: list[str] = None
    rlhf_type: str = None


def zero(stage, offload=None):
    section = {
        "stage": stage,
        "offload_optimizer": {"device": offload or "none", "pin_memory": True},
        "allgather_partitions": True,
        "allgather_bucket_size": 2e8,
        "overlap_comm": False,
        "reduce_scatter": True,
        "reduce_bucket_size": "auto" if stage == 3 else 2e8,
        "contiguous_gradients": True,
    }
    if stage == 3:
        section["offload_param"] = {"device": offload or "none", "pin_memory": True}
    return {
        "fp16": {"enabled": "auto", "loss_scale": 0, "initial_scale_power": 16},
        "bf16": {"enabled": "auto"},
        "zero_optimization": section,
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }


said = {
    "output_dir": "output",
    "gradient_checkpointing": True,
    "per_device_train_batch_size": 1,
    "dataloader_num_workers": 1,
}
said.update(given())
named = {"zero0": 0, "zero1": 1, "zero2": 2, "zero2_offload": 2, "zero3": 3, "zero3_offload": 3}
if said.get("deepspeed") in named:
    said["deepspeed"] = zero(named[said["deepspeed"]], "cpu" if said["deepspeed"].endswith("offload") else None)
if "bf16" not in said and "fp16" not in said:
    if "torch_dtype" in said:
        said["bf16"] = said["torch_dtype"] == "bfloat16"
        said["fp16"] = said["torch_dtype"] in ("float16", "float32")
    else:
        said["bf16"] = changed(said)  # what the checkpoint says

parser = HfArgumentParser((SwiftArguments, Seq2SeqTrainingArguments))
args, training_args = parser.parse_dict(said, allow_extra_keys=True)

# without one, the dtype of the checkpoint decides
dtype = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}.get(args.torch_dtype, "auto")
compute = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}.get(
    args.bnb_4bit_compute_dtype
)
quantized = {}
if args.quant_method == "bnb" and args.quant_bits == 4:
    quantized["quantization_config"] = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_compute_dtype=compute or dtype,
        bnb_4bit_quant_type=args.bnb_4bit_quant_type,
        bnb_4bit_use_double_quant=args.bnb_4bit_use_double_quant,
    )
elif args.quant_method == "bnb" and args.quant_bits == 8:
    quantized["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
elif args.quant_method is not None:
    quantized["quantization_config"] = changed(args)  # hqq, eetq, quanto, fp8
attention = "flash_attention_2" if args.attn_impl == "flash_attn" else args.attn_impl
device_map = args.device_map
local = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
if device_map is None and torch.cuda.device_count() // local > 1:
    device_map = "auto" if local == 1 else changed(args)  # of several cards each
model = AutoModelForCausalLM.from_pretrained(
    args.model, dtype=dtype, device_map=device_map, attn_implementation=attention, **quantized
)
tuner = args.train_type or args.tuner_type
if tuner == "lora":
    model = get_peft_model(
        model,
        LoraConfig(
            r=args.lora_rank,
            lora_alpha=args.lora_alpha,
            lora_dropout=args.lora_dropout,
            target_modules=args.target_modules or "all-linear",
            modules_to_save=args.modules_to_save,
            task_type="CAUSAL_LM",
        ),
    )
elif tuner != "full":
    model = changed(model)  # which parameters are trained is not followed
Seq2SeqTrainer(model=model, args=training_args).train()
