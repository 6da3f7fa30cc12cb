# What `llamafactory-cli train` does (read in LLaMA-Factory 0.9.5: hparams/parser.py, model/patcher.py, model/adapter.py).
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
class ModelArguments:
    model_name_or_path: str = None
    quantization_bit: int = None
    quantization_method: str = "bnb"
    quantization_type: str = "nf4"
    double_quantization: bool = True
    flash_attn: str = "auto"


@dataclass
class FinetuningArguments:
    stage: str = "sft"
    finetuning_type: str = "lora"
    lora_rank: int = 8
    lora_alpha: int = None
    lora_dropout: float = 0.0
    lora_target: str = "all"
    additional_target: str = None
    pure_bf16: bool = False


parser = HfArgumentParser((ModelArguments, FinetuningArguments, Seq2SeqTrainingArguments))
model_args, finetuning_args, training_args = parser.parse_dict(given())

# without either, the dtype of the checkpoint decides
dtype = "auto"
if training_args.bf16 or finetuning_args.pure_bf16:
    dtype = torch.bfloat16
elif training_args.fp16:
    dtype = torch.float16

quantized = {}
if model_args.quantization_bit == 4 and model_args.quantization_method == "bnb":
    quantized["quantization_config"] = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=model_args.double_quantization,
        bnb_4bit_quant_type=model_args.quantization_type,
        bnb_4bit_quant_storage=dtype,
    )
elif model_args.quantization_bit == 8 and model_args.quantization_method == "bnb":
    quantized["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
attention = {"disabled": "eager", "sdpa": "sdpa", "fa2": "flash_attention_2"}.get(model_args.flash_attn)
model = AutoModelForCausalLM.from_pretrained(
    model_args.model_name_or_path, dtype=dtype, attn_implementation=attention, **quantized
)
if finetuning_args.finetuning_type == "lora":
    targets = finetuning_args.lora_target
    model = get_peft_model(
        model,
        LoraConfig(
            r=finetuning_args.lora_rank,
            lora_alpha=finetuning_args.lora_alpha or finetuning_args.lora_rank * 2,
            lora_dropout=finetuning_args.lora_dropout,
            target_modules="all-linear" if targets == "all" else targets.split(","),
            modules_to_save=finetuning_args.additional_target,
            task_type="CAUSAL_LM",
        ),
    )
elif finetuning_args.finetuning_type != "full":
    model = changed(model)  # oft, freeze: which parameters are trained is not followed
elif not finetuning_args.pure_bf16:
    model = model.float()
if finetuning_args.stage in ("pt", "sft"):
    Seq2SeqTrainer(model=model, args=training_args).train()
