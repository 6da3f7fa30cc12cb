"""What the rules about loops, data, memory and saved files claim of the libraries, shown on the real ones.

Nothing here needs a GPU; what does is said on the pages of those rules.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch"),
]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# --- fp16-reduction ----------------------------------------------------------------------------------------------


def test_what_absorbs_an_overflow_gives_the_same_for_inf() -> None:
    """The tables in `t4lint/libraries/overflows.py`: inf and the largest number of float16 give the same."""
    import torch

    from t4lint.libraries.overflows import ABSORBING, ABSORBING_NEGATIVE, ABSORBING_POSITIVE, CLAMPS

    few = {"heaviside": 0.5, "minimum": 9.0, "fmin": 9.0, "clamp_max": 6.0, "clamp_max_": 6.0}
    compared = {"lt", "le", "gt", "ge", "eq", "ne", "less", "less_equal", "greater", "greater_equal"}

    def result(name: str, value: float) -> Any:
        x = torch.full((2,), value, dtype=torch.float16)
        function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
        if name in CLAMPS:
            return function(x, 0.0, 6.0)
        other = torch.tensor(few.get(name, 5.0)).half() if name in few or name in compared else None
        return function(x, other) if other is not None else function(x)

    for name in sorted(ABSORBING | ABSORBING_POSITIVE | CLAMPS):
        if name in ("isinf", "isfinite", "isnan", "min", "amin"):
            continue  # what asks for it; what picks the smallest of many
        for sign in (1,) if name in ABSORBING_POSITIVE else (1, -1):
            assert torch.allclose(result(name, sign * float("inf")), result(name, sign * 65504.0), atol=1e-4), name
    for name in sorted(ABSORBING_NEGATIVE):
        assert torch.equal(result(name, float("-inf")), result(name, -65504.0)), name
        assert torch.isinf(result(name, float("inf"))).all(), name


def test_gelu_written_out_is_right_where_its_square_overflows() -> None:
    import torch

    x = torch.tensor([1000.0, -1000.0], dtype=torch.float16, requires_grad=True)
    y = 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
    y.sum().backward()
    assert y.tolist() == [1000.0, 0.0]
    assert x.grad is not None and x.grad.tolist() == [1.0, 0.0]
    assert (x * torch.rsqrt(x.pow(2).mean() + 1e-6)).tolist() == [0.0, 0.0]  # a norm is not


# --- oom-recovery-in-except --------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", [True, False])
def test_the_tensors_of_a_failed_step_live_until_the_handler_is_left(named: bool) -> None:
    import traceback
    import weakref

    import torch

    alive: list[Any] = []

    def step() -> None:
        activation = torch.rand(4)
        alive.append(weakref.ref(activation))
        raise torch.OutOfMemoryError("CUDA out of memory")

    if named:
        try:
            step()
        except torch.OutOfMemoryError as error:
            assert alive[-1]() is not None
            assert "out of memory" in str(error)
    else:
        try:
            step()
        except torch.OutOfMemoryError:
            assert alive[-1]() is not None
    assert alive[-1]() is None
    try:
        step()
    except torch.OutOfMemoryError as error:
        traceback.clear_frames(error.__traceback__)
        assert alive[-1]() is None


# --- torch-load-weights-only-default -----------------------------------------------------------------------------


def test_which_files_torch_load_refuses(tmp_path: Any) -> None:
    import argparse
    import pickle

    import torch

    net = torch.nn.Linear(2, 2)
    args = argparse.Namespace(lr=0.1)
    refused = {"module": net, "namespace": {"model": net.state_dict(), "args": args}}
    for name, value in refused.items():
        torch.save(value, tmp_path / name)
        with pytest.raises(pickle.UnpicklingError, match="weights_only"):
            torch.load(tmp_path / name)
        torch.load(tmp_path / name, weights_only=False)
    torch.save({"model": net.state_dict(), "args": vars(args)}, tmp_path / "plain")
    assert torch.load(tmp_path / "plain")["args"] == {"lr": 0.1}


# --- checkpointing-without-input-grads ---------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [True, False])
def test_reentrant_checkpointing_needs_an_input_that_asks_for_gradients(reentrant: bool) -> None:
    """The mechanism in torch; what transformers 4.57.6 and peft make of it was executed apart, as the page says."""
    import torch
    from torch.utils.checkpoint import checkpoint

    layer = torch.nn.Linear(2, 2)
    x = torch.rand(1, 2)
    assert checkpoint(layer, x, use_reentrant=reentrant).requires_grad is not reentrant
    assert checkpoint(layer, x.requires_grad_(), use_reentrant=reentrant).requires_grad


def test_transformers_prepares_the_inputs_itself_since_5() -> None:
    pytest.importorskip("peft")
    pytest.importorskip("transformers")
    import peft
    import torch
    import transformers

    if int(transformers.__version__.partition(".")[0]) < 5:
        pytest.skip("needs transformers 5")
    config = transformers.LlamaConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=32
    )  # fmt: skip
    model = peft.get_peft_model(transformers.LlamaForCausalLM(config), peft.LoraConfig(target_modules=["q_proj"]))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.train()
    ids = torch.randint(0, 32, (1, 4))
    model(input_ids=ids, labels=ids).loss.backward()
    assert any(p.grad is not None for n, p in model.named_parameters() if "lora_" in n)


# --- loaders -----------------------------------------------------------------------------------------------------


class Numbers:
    """A dataset of one number a sample: the process that made it."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        import os

        return os.getpid()


@pytest.mark.parametrize("persistent", [True, False])
def test_workers_live_for_one_epoch_unless_they_are_persistent(persistent: bool) -> None:
    from torch.utils.data import DataLoader

    loader: Any = DataLoader(Numbers(), num_workers=1, persistent_workers=persistent)  # type: ignore[arg-type]
    first, second = ({int(x) for x in loader} for _ in range(2))
    assert (first == second) is persistent


@pytest.mark.parametrize(
    "options", [{"persistent_workers": True}, {"prefetch_factor": 2}, {"multiprocessing_context": "fork"}]
)
def test_worker_options_without_workers_are_refused(options: dict[str, Any]) -> None:
    from torch.utils.data import DataLoader

    with pytest.raises(ValueError, match="num_workers"):
        DataLoader(Numbers(), num_workers=0, **options)  # type: ignore[arg-type]


def test_more_workers_than_cpus_are_warned_of() -> None:
    import os

    from torch.utils.data import DataLoader

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DataLoader(Numbers(), num_workers=len(os.sched_getaffinity(0)) + 1)  # type: ignore[arg-type]
    assert any("suggested max number of worker" in str(warning.message) for warning in caught)


def test_each_worker_reads_all_of_an_iterable_dataset() -> None:
    from torch.utils.data import DataLoader, IterableDataset

    class Stream(IterableDataset):  # type: ignore[type-arg]
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    loader: Any = DataLoader(Stream(), num_workers=2, batch_size=None)
    assert sorted(int(x) for x in loader) == [0, 0, 1, 1, 2, 2]


def test_a_loader_does_not_pin_by_default() -> None:
    import inspect

    from torch.utils.data import DataLoader

    assert inspect.signature(DataLoader).parameters["pin_memory"].default is False


# --- the loop ----------------------------------------------------------------------------------------------------


def scalar_reads(use: Any) -> int:
    """How often the value of a tensor is taken to Python."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    count = 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal count
            count += "_local_scalar_dense" in str(func) or "is_nonzero" in str(func)
            return func(*args, **(kwargs or {}))

    t = torch.tensor(2.0)
    with Count():
        use(t)
    return count


@pytest.mark.parametrize(
    "use",
    [lambda t: t.item(), lambda t: int(t), lambda t: bool(t > 1), lambda t: f"{t:.4f}", float, lambda t: max(t, t)],
)
def test_what_reads_a_scalar(use: Any) -> None:
    assert scalar_reads(use) >= 1


def test_what_reads_none() -> None:
    assert scalar_reads(lambda t: t.detach() + 1) == 0


def test_a_factory_fills_host_memory_before_it_moves() -> None:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Note(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(f"{func} {(kwargs or {}).get('device')}")
            return func(*args, **(kwargs or {}))

    with Note():
        torch.zeros(4).to("meta")
        torch.zeros(4, device="meta")
    assert [entry.split()[0] for entry in seen] == ["aten.zeros.default", "aten._to_copy.default", "aten.zeros.default"]
    assert seen[0].endswith("cpu")
    assert seen[2].endswith("meta")


def gradients(divisor: float, last_window: bool = True, batches: int = 4) -> Any:
    import torch

    torch.manual_seed(0)
    net = torch.nn.Linear(2, 1)
    data = torch.rand(batches, 3, 2)
    seen = []
    for number, x in enumerate(data):
        (net(x).mean() / divisor).backward()
        if (number + 1) % 4 == 0:
            seen.append(net.weight.grad.clone())  # type: ignore[union-attr]
            net.zero_grad()
    return seen, net.weight.grad, data.reshape(-1, 2).mean(0)


def test_accumulated_gradients_are_as_many_times_too_large() -> None:
    import torch

    (undivided,), _, mean = gradients(1)
    (divided,), _, _ = gradients(4)
    assert torch.allclose(divided[0], mean, atol=1e-6)
    assert torch.allclose(undivided, 4 * divided, atol=1e-5)


def test_the_last_window_is_left_without_a_step() -> None:
    steps, rest, _ = gradients(4, batches=10)
    assert len(steps) == 2
    assert rest is not None  # of two batches, which leaks into the next epoch


def test_a_mean_of_means_is_no_mean_of_tokens() -> None:
    import torch

    losses = torch.cat([torch.full((900,), 2.0), torch.full((100,), 4.0)])
    assert (losses[:900].mean() + losses[900:].mean()) / 2 == 3.0
    assert losses.mean() == pytest.approx(2.2)


def test_accelerate_divides_the_loss_itself() -> None:
    pytest.importorskip("accelerate")
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    weight = torch.ones(1, requires_grad=True)
    accelerator.backward((weight * 8).sum())
    assert weight.grad is not None
    assert weight.grad.item() == 2.0


def test_which_sums_keep_a_graph() -> None:
    import torch

    weight = torch.ones(1, requires_grad=True)
    total = torch.zeros(1)
    total += (weight * 2).detach()
    assert total.grad_fn is None
    total = total + weight * 2
    assert total.grad_fn is not None


def test_zero_grad_frees_gradients_by_default() -> None:
    import torch

    for kept in (False, True):
        net = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        net(torch.rand(1, 2)).sum().backward()
        optimizer.zero_grad(**({"set_to_none": False} if kept else {}))
        assert (net.weight.grad is not None) is kept


def test_retain_graph_keeps_what_the_backward_would_free() -> None:
    import torch

    x = torch.rand(3, requires_grad=True)
    for kept in (True, False):
        loss = (x * x).sum()
        loss.backward(retain_graph=kept)
        if kept:
            loss.backward()
        else:
            with pytest.raises(RuntimeError, match="second time"):
                loss.backward()


def test_anomaly_detection_checks_every_backward() -> None:
    import torch

    x = torch.tensor([-1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="returned nan"), torch.autograd.set_detect_anomaly(True):
        torch.sqrt(x).sum().backward()
    torch.sqrt(x).sum().backward()


def test_a_checkpoint_goes_back_to_where_it_was_saved_from(tmp_path: Any) -> None:
    """Shown with the device "meta" in the place of a GPU."""
    import torch

    torch.save(torch.rand(2), tmp_path / "t.pt")
    assert torch.load(tmp_path / "t.pt").device.type == "cpu"
    assert torch.load(tmp_path / "t.pt", map_location="meta").device.type == "meta"


# --- texts -------------------------------------------------------------------------------------------------------


def tokenizer() -> Any:
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[UNK]": 0, "[PAD]": 1, "a": 2, "b": 3}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[PAD]", unk_token="[UNK]", model_max_length=16)


def test_padding_to_the_maximum_whatever_the_texts_are() -> None:
    texts = ["a", "a b a"]
    assert {len(row) for row in tokenizer()(texts, padding="max_length").input_ids} == {16}
    assert {len(row) for row in tokenizer()(texts, padding="longest").input_ids} == {3}


def test_a_map_is_called_for_each_row_unless_it_is_batched() -> None:
    datasets = pytest.importorskip("datasets")
    calls: list[Any] = []
    rows = datasets.Dataset.from_dict({"text": ["a", "b", "a"]})
    for batched in (False, True):
        calls.clear()
        rows.map(
            lambda row: calls.append(row["text"]) or {"n": row["text"]}, batched=batched, load_from_cache_file=False
        )
        assert len([call for call in calls if call is not None]) >= (1 if batched else 3)
        assert isinstance(calls[-1], list) is batched


# --- announced changes -------------------------------------------------------------------------------------------


def test_the_names_of_cuda_amp_are_announced_to_go() -> None:
    import torch

    for use in (lambda: torch.cuda.amp.autocast(), lambda: torch.cuda.amp.GradScaler()):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            use()  # type: ignore[no-untyped-call]
        assert any("is deprecated" in str(warning.message) for warning in caught)


def test_checkpoint_without_its_kind_is_warned_of() -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checkpoint(torch.nn.Linear(2, 2), torch.rand(1, 2, requires_grad=True))
    assert any("use_reentrant" in str(warning.message) for warning in caught)


# --- evaluation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "more", "expected"),
    [
        ({}, {}, (8, 4, 32)),
        ({"prediction_loss_only": True}, {}, None),
        ({}, {"preprocess_logits_for_metrics": lambda logits, labels: logits.argmax(-1)}, (8, 4)),
    ],
)
def test_what_a_trainer_keeps_of_an_evaluation(
    tmp_path: Any, arguments: dict[str, Any], more: dict[str, Any], expected: tuple[int, ...] | None
) -> None:
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    import torch

    class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            ids = torch.arange(4) + index
            return {"input_ids": ids, "labels": ids}

    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=32, n_positions=8)
    args = transformers.TrainingArguments(
        str(tmp_path), per_device_eval_batch_size=2, use_cpu=True, report_to=[], disable_tqdm=True, **arguments
    )
    seen: list[Any] = []
    trainer = transformers.Trainer(
        transformers.GPT2LMHeadModel(config), args, eval_dataset=Rows(),
        compute_metrics=lambda it: seen.append(it.predictions) or {}, **more,
    )  # fmt: skip
    trainer.evaluate()
    shapes = [tuple((it[0] if isinstance(it, tuple) else it).shape) for it in seen]
    assert shapes == ([] if expected is None else [expected])


def test_kept_batches_are_joined_by_a_copy() -> None:
    utilities = pytest.importorskip("transformers.trainer_pt_utils")
    import torch

    container = utilities.EvalLoopContainer()
    container.add(torch.rand(2, 4))
    first = container.tensors
    container.add(torch.rand(2, 4))
    assert container.tensors.shape == (4, 4)
    assert container.tensors.data_ptr() != first.data_ptr()  # both are there for a moment
    container.to_cpu_and_numpy()
    assert container.tensors is None


# --- padded-batch-without-attention-mask -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Bert", "DistilBert", "T5"])
def test_padding_changes_the_answer_without_a_mask(kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    torch.manual_seed(0)
    small: dict[str, Any] = {
        "Bert": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16},
        "DistilBert": {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 16},
        "T5": {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2},
    }[kind]
    config = getattr(transformers, f"{kind}Config")(vocab_size=32, **small)
    name = "T5EncoderModel" if kind == "T5" else f"{kind}Model"
    model = getattr(transformers, name)(config).eval()
    ids = torch.tensor([[5, 6, 7]])
    padded = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], 1)
    with torch.no_grad():
        alone = model(input_ids=ids).last_hidden_state
        unmasked = model(input_ids=padded).last_hidden_state[:, :3]
        masked = model(input_ids=padded, attention_mask=(padded != 0).long()).last_hidden_state[:, :3]
    assert torch.allclose(alone, masked, atol=1e-5)
    assert not torch.allclose(alone, unmasked, atol=1e-3)


def test_padding_on_the_right_does_not_change_a_causal_model() -> None:
    transformers = pytest.importorskip("transformers")
    import torch

    config = transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=32, n_positions=8)
    model = transformers.GPT2Model(config).eval()
    ids = torch.tensor([[5, 6, 7]])
    padded = torch.cat([ids, torch.zeros(1, 3, dtype=torch.long)], 1)
    with torch.no_grad():
        assert torch.allclose(
            model(input_ids=ids).last_hidden_state, model(input_ids=padded).last_hidden_state[:, :3], atol=1e-5
        )


# --- what outlives an iteration ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backward", "detached", "alive"),
    [(None, False, True), (False, False, False), (True, False, True), (None, True, False)],
)
def test_a_kept_loss_keeps_the_activations_that_no_backward_freed(
    backward: bool | None, detached: bool, alive: bool
) -> None:
    """`backward` is None where there is none, else its `retain_graph`."""
    import weakref

    import torch

    weight = torch.rand(4, requires_grad=True)
    kept = []
    saved: list[Any] = []

    def pack(tensor: Any) -> Any:
        copy = tensor.clone()  # stands for the activation: only the graph holds it
        saved.append(weakref.ref(copy))
        return copy

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = (weight.exp() * weight).sum()
    if backward is not None:
        loss.backward(retain_graph=backward)
    kept.append(loss.detach() if detached else loss)
    del loss
    assert kept
    assert any(reference() is not None for reference in saved) is alive


# --- defaults and refusals of trainers ---------------------------------------------------------------------------


def test_the_defaults_of_loaders() -> None:
    import inspect

    from torch.utils.data import DataLoader

    defaults = inspect.signature(DataLoader).parameters
    assert defaults["num_workers"].default == 0
    transformers = pytest.importorskip("transformers")
    fields = transformers.TrainingArguments.__dataclass_fields__
    assert fields["dataloader_num_workers"].default == 0
    assert fields["dataloader_pin_memory"].default is True
    assert fields["dataloader_persistent_workers"].default is False


def test_persistent_workers_of_a_trainer_pass_until_its_loader_is_built(tmp_path: Any) -> None:
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    import torch

    args = transformers.TrainingArguments(
        str(tmp_path), dataloader_persistent_workers=True, use_cpu=True, report_to=[], remove_unused_columns=False
    )
    trainer = transformers.Trainer(torch.nn.Linear(1, 1), args, train_dataset=Numbers())
    with pytest.raises(ValueError, match="persistent_workers"):
        trainer.get_train_dataloader()


def test_outside_accumulate_every_batch_steps() -> None:
    pytest.importorskip("accelerate")
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
    net = torch.nn.Linear(1, 1)
    optimizer = accelerator.prepare(torch.optim.SGD(net.parameters(), lr=1.0))
    before = net.weight.detach().clone()
    net(torch.ones(1, 1)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, net.weight)
    before = net.weight.detach().clone()
    with accelerator.accumulate(net):
        net(torch.ones(1, 1)).sum().backward()
        optimizer.step()
    assert torch.equal(before, net.weight)


def test_bytes_of_an_array() -> None:
    numpy = pytest.importorskip("numpy")
    import torch

    assert numpy.zeros((10, 84, 84, 4), dtype="uint8").nbytes == 10 * 84 * 84 * 4
    assert numpy.zeros((10, 3)).nbytes == 10 * 3 * 8
    assert torch.zeros(10, 3).nbytes == 10 * 3 * 4


# --- what libraries took out, and what they pass ---------------------------------------------------------------------


def gone() -> list[tuple[str, str]]:
    """(library, name) of each name that the table calls gone, but methods of tokenizers."""
    import csv

    from t4lint.libraries.symbols import GONE_METHODS

    with Path("rules/api/removed_arguments.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["takes"] == "symbol"]
    return [(row["library"], row["argument"]) for row in rows if row["argument"] not in GONE_METHODS]


@pytest.mark.parametrize(("library", "name"), gone())
def test_a_name_that_is_called_gone_is_gone(library: str, name: str) -> None:
    module = pytest.importorskip(library)
    with pytest.raises((AttributeError, ImportError)):
        getattr(module, name)


def test_the_interpreter_knows_all_names_that_are_gone() -> None:
    from t4lint.libraries.symbols import GONE

    assert {f"{library}.{name}" for library, name in gone()} == GONE


def test_tokenizers_have_lost_these_methods() -> None:
    transformers = pytest.importorskip("transformers")
    from t4lint.libraries.symbols import GONE_METHODS

    for base in (transformers.PreTrainedTokenizer, transformers.PreTrainedTokenizerFast):
        assert not [name for name in GONE_METHODS if hasattr(base, name)]


@pytest.mark.parametrize("argument", ["use_auth_token", "resume_download", "use_flash_attention_2"])
def test_loading_a_model_refuses_old_arguments(argument: str, tmp_path: Path) -> None:
    """A model does; a configuration takes anything."""
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9
    )
    transformers.BertModel(config).save_pretrained(tmp_path)
    with pytest.raises(TypeError, match=argument):
        transformers.AutoModel.from_pretrained(tmp_path, **{argument: True})
    transformers.AutoConfig.from_pretrained(tmp_path, **{argument: True})


@pytest.mark.parametrize("method", ["compute_loss", "training_step", "log", "_get_train_sampler"])
def test_the_trainer_passes_an_argument_that_older_overrides_do_not_take(method: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    base: Any = transformers.Trainer

    class Old(base):  # type: ignore[misc]
        pass

    def compute_loss(self: Any, model: Any, inputs: Any, return_outputs: bool = False) -> Any:
        return model(**inputs).loss

    def training_step(self: Any, model: Any, inputs: Any) -> Any:
        return model(**inputs).loss.detach()

    def log(self: Any, logs: Any) -> None:
        pass

    def _get_train_sampler(self: Any) -> None:
        return None

    setattr(Old, method, locals()[method])
    config = transformers.BertConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, vocab_size=9
    )
    model = transformers.BertForSequenceClassification(config)
    args = transformers.TrainingArguments(str(tmp_path), report_to=[], max_steps=1, logging_steps=1, use_cpu=True)
    trainer = Old(model, args, train_dataset=[{"input_ids": [1, 2], "labels": 0}] * 4)
    with pytest.raises(TypeError):
        trainer.train()
