"""QLoRA: a Llama of 7 billion parameters in 4 bits (or 8), LoRA on its projections, a paged optimizer in 8 bits."""

import sys

import bitsandbytes as bnb
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch.utils.data import DataLoader
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM
from transformers.integrations import replace_with_bnb_linear

eight = "--8bit" in sys.argv
quantization = (
    BitsAndBytesConfig(load_in_8bit=True)
    if eight
    else BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=torch.float16,
        bnb_4bit_use_double_quant=True,
    )
)
config = LlamaConfig(dtype=torch.float16)  # of Llama-2 7B
with torch.device("meta"):
    model = LlamaForCausalLM(config).to(torch.float16)
    model = replace_with_bnb_linear(model, ["lm_head"], quantization)
kind = bnb.nn.Int8Params if eight else bnb.nn.Params4bit
for module in model.modules():
    for name, parameter in list(module.named_parameters(recurse=False)):
        made = torch.empty(parameter.shape, dtype=torch.float16)
        if isinstance(parameter, kind):
            module.weight = kind(made, requires_grad=False, **parameter.__dict__)
        else:
            setattr(module, name, torch.nn.Parameter(made, requires_grad=False))
model.model.rotary_emb = type(model.model.rotary_emb)(config)
model.to("cuda")
model.is_loaded_in_4bit, model.is_loaded_in_8bit = not eight, eight
model.is_quantized, model.quantization_method = True, quantization.quant_method
print(f"{torch.cuda.memory_allocated() / 2**30:.2f} GiB of weights")

model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
model = get_peft_model(model, lora)
model.print_trainable_parameters()
optimizer = bnb.optim.PagedAdamW8bit([it for it in model.parameters() if it.requires_grad], lr=2e-4)
scaler = torch.amp.GradScaler("cuda")
data = [torch.randint(0, 32000, (512,)) for _ in range(16)]
model.train()
for ids in DataLoader(data, batch_size=1):
    ids = ids.to("cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(input_ids=ids, labels=ids).loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    print(loss.item(), f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
