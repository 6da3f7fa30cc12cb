# What the recipes of `tune run` do with `dtype` (read in torchtune 0.6: the model is built in it, LoRA as well).
import torch
from t4lint_programs import batches, given
from transformers import AutoModelForCausalLM

cfg = given("config")
dtype = getattr(torch, cfg["dtype"].replace("bf", "bfloat").replace("fp", "float"))
device = torch.device(cfg["device"])
model = AutoModelForCausalLM.from_pretrained(cfg.get("checkpointer", {}).get("checkpoint_dir"), dtype=dtype)
model.to(device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), fused=cfg.get("optimizer", {}).get("fused"))
for batch in batches():
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
