# What `axolotl train FILE` does (read in axolotl at 2026-07): resolve_dtype, the model loader and the training arguments.
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from t4lint_programs import chosen_bf16, given
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

cfg = given()
bf16, fp16 = cfg.get("bf16", "auto"), cfg.get("fp16")
if not fp16 and bf16 == "auto":
    bf16 = chosen_bf16(bf16)
    if not bf16 and fp16 is None and not cfg.get("float16"):
        fp16 = True
if fp16 and bf16 == "auto":
    bf16 = False
if cfg.get("tf32") is True:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
if bf16:
    fp16 = False
if bf16 or cfg.get("bfloat16"):
    dtype = torch.bfloat16
elif cfg.get("load_in_8bit") or fp16 or cfg.get("float16"):
    dtype = torch.float16
else:
    dtype = torch.float32

quantized = {}
if cfg.get("load_in_4bit"):
    quantized["quantization_config"] = BitsAndBytesConfig(
        load_in_4bit=True,
        llm_int8_threshold=6.0,
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_quant_storage=torch.bfloat16,
    )
elif cfg.get("load_in_8bit"):
    quantized["quantization_config"] = BitsAndBytesConfig(load_in_8bit=True)
attention = cfg.get("attn_implementation")
if cfg.get("flash_attention"):
    attention = "flash_attention_2"
elif cfg.get("sdp_attention"):
    attention = "sdpa"
elif cfg.get("eager_attention"):
    attention = "eager"
elif cfg.get("xformers_attention"):
    attention = None
model = AutoModelForCausalLM.from_pretrained(
    cfg.get("base_model"), dtype=dtype, attn_implementation=attention, **quantized
)
if quantized and cfg.get("adapter") in ("lora", "qlora"):
    model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=cfg.get("gradient_checkpointing"))
if cfg.get("adapter") in ("lora", "qlora"):
    model = get_peft_model(
        model,
        LoraConfig(
            r=cfg.get("lora_r"),
            lora_alpha=cfg.get("lora_alpha"),
            lora_dropout=cfg.get("lora_dropout"),
            target_modules=cfg.get("lora_target_modules"),
            modules_to_save=cfg.get("lora_modules_to_save"),
            task_type="CAUSAL_LM",
        ),
    )

optional = {}
for name in (
    "dataloader_num_workers",
    "dataloader_pin_memory",
    "dataloader_prefetch_factor",
    "gradient_checkpointing",
    "auto_find_batch_size",
    "torch_compile",
    "deepspeed",
    "max_steps",
    "group_by_length",
    "ddp_find_unused_parameters",
):
    if cfg.get(name) is not None:
        optional[name] = cfg.get(name)
batch = cfg.get("micro_batch_size", 1)
if cfg.get("rl") is None:
    arguments = TrainingArguments(
        cfg.get("output_dir"),
        bf16=bf16 or cfg.get("bfloat16") or False,
        fp16=fp16 or False,
        per_device_train_batch_size=batch,
        per_device_eval_batch_size=cfg.get("eval_batch_size", batch),
        gradient_accumulation_steps=cfg.get("gradient_accumulation_steps", 1),
        optim=cfg.get("optimizer", "adamw_torch_fused"),
        **optional,
    )
    Trainer(model=model, args=arguments).train()
