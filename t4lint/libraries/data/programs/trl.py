# What `trl METHOD` does (read in trl 1.16, scripts/): METHOD is replaced by SFT, DPO, ...
from trl import (
    METHODConfig,
    METHODTrainer,
    ModelConfig,
    ScriptArguments,
    TrlParser,
    get_peft_config,
    get_quantization_config,
)

parser = TrlParser((ScriptArguments, METHODConfig, ModelConfig))
script_args, training_args, model_args = parser.parse_args_and_config()
training_args.model_init_kwargs = {
    "revision": model_args.model_revision,
    "attn_implementation": model_args.attn_implementation,
    "dtype": model_args.dtype,
}
trainer = METHODTrainer(
    model=model_args.model_name_or_path,
    args=training_args,
    quantization_config=get_quantization_config(model_args),
    peft_config=get_peft_config(model_args),
)
trainer.train()
