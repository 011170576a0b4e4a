#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the golden models of tests/data/golden: small random models with what they must give.

usage: export.py OUT_DIR [--family NAME] [--no-fla]

For each family a folder with config.json, model.safetensors (fp32, FLA's names) and io.safetensors:
  dense.tokens [2, 97], packed.tokens [1, 194] with packed.cu_seqlens, greedy.tokens [2, 12], what follows the
  first 70 dense tokens;
  dense. and packed. logits, loss (the mean over next-token targets; a packed row's cross its borders) and
  grad_norm.NAME of every parameter, and greedy.logits [2, 12, vocabulary], from the model below: float64, token by
  token, gradients by autograd;
  the same two groups as fla.dense. and fla.packed., from FLA's model of these weights in bf16 on the GPU, where FLA
  and a GPU are there. What fails there is printed, and the rest goes on.

Needs torch; for the last part transformers, einops and a checkout of FLA on PYTHONPATH (its core package has no
models).
"""

import argparse
import importlib
import json
import math
import random
import struct
import sys
import time
import traceback
from array import array
from pathlib import Path

import torch
import torch.nn.functional as F

VOCABULARY = 128
COMMON = {"num_hidden_layers": 2, "num_heads": 2, "intermediate_size": 128, "vocab_size": VOCABULARY,
          "norm_eps": 1e-6, "tie_word_embeddings": False}
CASES = {
    "kda": ("KDAForCausalLM", {"hidden_size": 64, "head_dim": 64, "expand_v": 1.0, "conv_size": 4}),
    "gated_deltanet": ("GatedDeltaNetForCausalLM",
                       {"hidden_size": 64, "head_dim": 64, "expand_v": 2.0, "conv_size": 4}),
    "gla": ("GLAForCausalLM", {"hidden_size": 128, "expand_k": 0.5, "expand_v": 1.0}),
}
DENSE_SHAPE = (2, 97)
CU_SEQLENS = (0, 1, 2, 5, 64, 65, 129, 194)
PACKED_SHAPE = (1, CU_SEQLENS[-1])
PROMPT = 70
NEW_TOKENS = 12
GATE_LOW_RANK = 16
GATE_NORMALIZER = 16.0


def say(*words):
    print(*words, flush=True)


# ---- tensors and files: a tensor is its type code of `array`, its shape and its numbers


def floats(shape, numbers):
    return "f", tuple(shape), array("f", numbers)


def integers(shape, numbers):
    return "i", tuple(shape), array("i", numbers)


def of_torch(tensor):
    return floats(tensor.shape, tensor.detach().reshape(-1).tolist())


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    names = sorted(tensors, key=lambda name: (tensors[name][0], name))
    for name in names:
        code, shape, numbers = tensors[name]
        size = len(numbers) * numbers.itemsize
        assert numbers.itemsize == 4 and len(numbers) == math.prod(shape), name
        header[name] = {"dtype": {"f": "F32", "i": "I32"}[code], "shape": list(shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            numbers = array(tensors[name][0], tensors[name][2])
            if sys.byteorder == "big":
                numbers.byteswap()
            file.write(numbers.tobytes())


# ---- weights


def mixer_shapes(family, config):
    """Shapes of a mixer's parameters, and its sizes: heads, key channels and value channels a head."""
    hidden, heads = config["hidden_size"], config["num_heads"]
    if family == "gla":
        key = int(hidden * config["expand_k"]) // heads
        value = int(hidden * config["expand_v"]) // heads
    else:
        key, value = config["head_dim"], int(config["head_dim"] * config["expand_v"])
    keys, values = heads * key, heads * value
    shapes = {"q_proj.weight": (keys, hidden), "k_proj.weight": (keys, hidden), "v_proj.weight": (values, hidden),
              "o_proj.weight": (hidden, values)}
    if family == "gla":
        shapes |= {"g_proj.weight": (values, hidden), "gk_proj.0.weight": (GATE_LOW_RANK, hidden),
                   "gk_proj.1.weight": (keys, GATE_LOW_RANK), "gk_proj.1.bias": (keys,),
                   "g_norm_swish_gate.weight": (value,)}
        return shapes, (heads, key, value)
    taps = config["conv_size"]
    shapes |= {"q_conv1d.weight": (keys, 1, taps), "k_conv1d.weight": (keys, 1, taps),
               "v_conv1d.weight": (values, 1, taps), "b_proj.weight": (heads, hidden), "A_log": (heads,),
               "o_norm.weight": (value,)}
    if family == "kda":
        shapes |= {"f_proj.0.weight": (value, hidden), "f_proj.1.weight": (keys, value), "dt_bias": (keys,),
                   "g_proj.0.weight": (value, hidden), "g_proj.1.weight": (values, value), "g_proj.1.bias": (values,)}
    else:
        shapes |= {"a_proj.weight": (heads, hidden), "g_proj.weight": (values, hidden), "dt_bias": (heads,)}
    return shapes, (heads, key, value)


def parameter_shapes(family, config):
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {"model.embeddings.weight": (VOCABULARY, hidden), "model.norm.weight": (hidden,),
              "lm_head.weight": (VOCABULARY, hidden)}
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes |= {prefix + "attn_norm.weight": (hidden,), prefix + "mlp_norm.weight": (hidden,),
                   prefix + "mlp.gate_proj.weight": (inner, hidden), prefix + "mlp.up_proj.weight": (inner, hidden),
                   prefix + "mlp.down_proj.weight": (hidden, inner)}
        shapes |= {f"{prefix}attn.{name}": shape for name, shape in mixer_shapes(family, config)[0].items()}
    return shapes


def draw(family, name, shape):
    """Numbers far enough from an initialisation that every gate, norm and decay matters."""
    rng = random.Random(f"{family} {name}")

    def number():
        if name.endswith("A_log"):
            return math.log(rng.uniform(1.0, 8.0))
        if name.endswith("dt_bias"):  # softplus gives this back
            dt = math.exp(rng.uniform(math.log(0.01), math.log(0.3)))
            return dt + math.log(-math.expm1(-dt))
        if "norm" in name:
            return 1.0 + 0.1 * rng.gauss(0.0, 1.0)
        if name.endswith("bias") or "embeddings" in name:
            return 0.3 * rng.gauss(0.0, 1.0)
        return rng.gauss(0.0, 1.0) * (1.0 if "conv1d" in name else 0.9) / math.sqrt(shape[-1])

    return floats(shape, [number() for _ in range(math.prod(shape))])


# ---- the model in float64


class Model:
    """A causal language model, one token after the other."""

    def __init__(self, family, config, weights):
        self.family, self.config = family, config
        self.sizes = mixer_shapes(family, config)[1]
        self.parameters = {name: torch.tensor(list(numbers), dtype=torch.float64).reshape(shape).requires_grad_()
                           for name, (_, shape, numbers) in weights.items()}

    def logits(self, tokens, cu_seqlens=None):
        if cu_seqlens is not None:  # sequences know nothing of each other
            parts = [self.logits(tokens[:, first:end]) for first, end in zip(cu_seqlens, cu_seqlens[1:])]
            return torch.cat(parts, 1)
        stream = self.parameters["model.embeddings.weight"][tokens]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            stream = stream + self.mixer(prefix + "attn.", self.norm(prefix + "attn_norm", stream))
            x = self.norm(prefix + "mlp_norm", stream)
            inner = F.silu(self.linear(prefix + "mlp.gate_proj", x)) * self.linear(prefix + "mlp.up_proj", x)
            stream = stream + self.linear(prefix + "mlp.down_proj", inner)
        return self.linear("lm_head", self.norm("model.norm", stream))

    def linear(self, name, x):
        y = x @ self.parameters[name + ".weight"].T
        bias = self.parameters.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        mean_square = (x * x).mean(-1)[..., None]
        return x / torch.sqrt(mean_square + self.config["norm_eps"]) * self.parameters[name + ".weight"]

    def convolved(self, name, x):
        """Each channel's last taps of what the projection gives, zeros before the first token."""
        x = self.linear(name + "_proj", x)
        weight = self.parameters[name + "_conv1d.weight"]
        taps, length = weight.shape[-1], x.shape[1]
        x = torch.cat([torch.zeros((x.shape[0], taps - 1, x.shape[2]), dtype=torch.float64), x], 1)
        return F.silu(sum(weight[:, 0, tap] * x[:, tap:tap + length] for tap in range(taps)))

    def mixer(self, prefix, x):
        o = self.gla(prefix, x) if self.family == "gla" else self.delta(prefix, x)
        if self.family == "kda":
            gate = torch.sigmoid(self.linear(prefix + "g_proj.1", self.linear(prefix + "g_proj.0", x)))
        else:
            gate = F.silu(self.linear(prefix + "g_proj", x))
        norm = "g_norm_swish_gate" if self.family == "gla" else "o_norm"
        return self.linear(prefix + "o_proj", merged(self.norm(prefix + norm, o)) * gate)

    def gla(self, prefix, x):
        heads, key, _ = self.sizes
        q, k, v = (split(self.linear(prefix + name, x), heads) for name in ("q_proj", "k_proj", "v_proj"))
        gate = self.linear(prefix + "gk_proj.1", self.linear(prefix + "gk_proj.0", x))
        decay = torch.exp(split(F.logsigmoid(gate) / GATE_NORMALIZER, heads))
        return recurrence(q * key ** -0.5, k, v, decay, None)

    def delta(self, prefix, x):
        heads, key, _ = self.sizes
        q, k, v = (split(self.convolved(prefix + name, x), heads) for name in ("q", "k", "v"))
        rate = -torch.exp(self.parameters[prefix + "A_log"])[:, None]
        if self.family == "kda":
            z = self.linear(prefix + "f_proj.1", self.linear(prefix + "f_proj.0", x))
        else:
            z = self.linear(prefix + "a_proj", x)
        decay = torch.exp(rate * F.softplus(split(z + self.parameters[prefix + "dt_bias"], heads)))
        beta = torch.sigmoid(self.linear(prefix + "b_proj", x))
        return recurrence(unit(q) * key ** -0.5, unit(k), v, decay, beta)


def split(x, heads):
    return x.reshape(*x.shape[:2], heads, -1)


def merged(x):
    return x.reshape(*x.shape[:2], -1)


def unit(x):
    return x / torch.sqrt((x * x).sum(-1) + 1e-6)[..., None]


def recurrence(q, k, v, decay, beta):
    """S <- decay S + k u^T, o = S^T q over states [key, value]: u is v or, with beta, beta (v - S^T k)."""
    batch, length, heads, _ = q.shape
    state = torch.zeros((batch, heads, k.shape[-1], v.shape[-1]), dtype=torch.float64)
    outputs = []
    for t in range(length):
        state = decay[:, t][..., None] * state
        u = v[:, t]
        if beta is not None:
            u = beta[:, t][..., None] * (u - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * u[..., None, :]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1)


def next_token_loss(logits, tokens):
    rows = logits[:, :-1].reshape(-1, VOCABULARY)
    targets = tokens[:, 1:].reshape(-1)
    return (torch.logsumexp(rows, -1) - rows[torch.arange(targets.shape[0]), targets]).mean()


def own_values(model, group, tokens, cu_seqlens):
    for parameter in model.parameters.values():
        parameter.grad = None
    logits = model.logits(tokens, cu_seqlens)
    loss = next_token_loss(logits, tokens)
    loss.backward()
    values = {f"{group}.logits": of_torch(logits), f"{group}.loss": floats((1,), [loss.item()])}
    for name, parameter in model.parameters.items():
        values[f"{group}.grad_norm.{name}"] = floats((1,), [parameter.grad.norm().item()])
    return values


def greedy_values(model, tokens):
    tokens, rows, least = tokens[:, :PROMPT], [], math.inf
    with torch.no_grad():
        for _ in range(NEW_TOKENS):
            rows.append(model.logits(tokens)[:, -1])
            best = torch.topk(rows[-1], 2, -1).values
            least = min(least, (best[:, 0] - best[:, 1]).min().item())
            tokens = torch.cat([tokens, rows[-1].argmax(-1)[:, None]], 1)
    say(f"  greedy: each token leads the next best by {least:.2g} or more")
    new = tokens[:, PROMPT:]
    return {"greedy.tokens": integers(new.shape, new.reshape(-1).tolist()),
            "greedy.logits": of_torch(torch.stack(rows, 1))}


# ---- FLA


def fla_model(family, architecture, config, weights):
    module = importlib.import_module(f"fla.models.{family}")
    model_class = getattr(module, architecture)
    model_class._tied_weights_keys = {}  # transformers 5 wants a mapping; nothing is tied
    model = model_class(getattr(module, architecture.replace("ForCausalLM", "Config"))(**config))
    state = {name: torch.tensor(list(numbers), dtype=torch.float32).reshape(shape)
             for name, (_, shape, numbers) in weights.items()}
    model.load_state_dict(state, strict=True)
    model = model.to(device="cuda", dtype=torch.bfloat16)
    return model.train()  # what takes chunks; nothing here drops out


def fla_values(model, group, tokens, cu_seqlens):
    tokens = tokens.to("cuda")
    call = {"use_cache": False, "output_attentions": False, "output_hidden_states": False, "return_dict": True}
    if cu_seqlens is not None:
        call["cu_seqlens"] = torch.tensor(cu_seqlens, dtype=torch.int32, device="cuda")
    with torch.no_grad():  # apart from the loss, whose kernel writes its gradient over the logits
        logits = model(tokens, **call).logits
    model.zero_grad(set_to_none=True)
    loss = model(tokens, labels=tokens, **call).loss
    loss.backward()
    torch.cuda.synchronize()
    values = {f"fla.{group}.logits": of_torch(logits.float().cpu()),
              f"fla.{group}.loss": floats((1,), [loss.float().item()])}
    for name, parameter in model.named_parameters():
        values[f"fla.{group}.grad_norm.{name}"] = floats((1,), [parameter.grad.float().norm().item()])
    return values


def report_distance(io, group):
    ours, theirs = io[f"{group}.logits"][2], io[f"fla.{group}.logits"][2]
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs)) / sum(a * a for a in ours))
    prefix = f"{group}.grad_norm."
    worst = max((abs(io["fla." + name][2][0] / io[name][2][0] - 1), name[len(prefix):])
                for name in io if name.startswith(prefix))
    say(f"  {group}: FLA in bf16 is {error:.2e} (relative RMS) off in the logits, "
        f"{io[f'fla.{group}.loss'][2][0] - io[f'{group}.loss'][2][0]:+.2e} in the loss, "
        f"{worst[0]:.2e} in the gradient's norm of {worst[1]}")


# ---- cases


class Case:
    def __init__(self, family, folder):
        self.family, self.folder = family, folder
        self.architecture, own = CASES[family]
        self.config = COMMON | own
        self.weights = {name: draw(family, name, shape)
                        for name, shape in parameter_shapes(family, self.config).items()}
        rng = random.Random(f"{family} tokens")
        self.io = {"packed.cu_seqlens": integers((len(CU_SEQLENS),), CU_SEQLENS)}
        self.inputs = {}
        for group, shape, cu_seqlens in (("dense", DENSE_SHAPE, None), ("packed", PACKED_SHAPE, CU_SEQLENS)):
            ids = [rng.randrange(VOCABULARY) for _ in range(math.prod(shape))]
            self.io[f"{group}.tokens"] = integers(shape, ids)
            self.inputs[group] = (torch.tensor(ids, dtype=torch.int64).reshape(shape), cu_seqlens)

    def write_model(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        config = {"architectures": [self.architecture], "model_type": self.family, "torch_dtype": "float32"}
        text = json.dumps(config | self.config, indent=2, sort_keys=True)
        (self.folder / "config.json").write_text(text + "\n")
        write_safetensors(self.folder / "model.safetensors", self.weights)

    def write_io(self):
        write_safetensors(self.folder / "io.safetensors", self.io)

    def add_own(self):
        model = Model(self.family, self.config, self.weights)
        for group, (tokens, cu_seqlens) in self.inputs.items():
            self.io |= own_values(model, group, tokens, cu_seqlens)
            say(f"  {group}: loss {self.io[f'{group}.loss'][2][0]:.6f}")
        self.io |= greedy_values(model, self.inputs["dense"][0])

    def add_fla(self):
        model = fla_model(self.family, self.architecture, self.config, self.weights)
        values = {}
        for group, (tokens, cu_seqlens) in self.inputs.items():
            values |= fla_values(model, group, tokens, cu_seqlens)
            say(f"  {group}: loss {values[f'fla.{group}.loss'][2][0]:.6f}")
        self.io |= values
        for group in self.inputs:
            report_distance(self.io, group)


def add_fla_to_all(cases):
    """How many families FLA failed on."""
    failures = 0
    for case in cases:
        start = time.monotonic()
        say(f"{case.family}: FLA in bf16")
        try:
            case.add_fla()
            case.write_io()
        except Exception:  # another family may still work
            failures += 1
            traceback.print_exc()
        say(f"  {time.monotonic() - start:.1f} s")
    return failures


def main():
    """Runs the program; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT_DIR")
    parser.add_argument("--no-fla", action="store_true", help="leave out what FLA gives")
    parser.add_argument("--family", choices=CASES, help="this one alone; several may run at once")
    options = parser.parse_args()
    families = [options.family] if options.family else CASES
    cases = [Case(family, options.out / family) for family in families]
    for case in cases:
        start = time.monotonic()
        say(f"{case.family}: {sum(len(weight[2]) for weight in case.weights.values())} parameters, float64")
        case.write_model()
        case.add_own()
        case.write_io()
        say(f"  {time.monotonic() - start:.1f} s")
    failures = 0
    if not options.no_fla:
        if torch.cuda.is_available():
            failures = add_fla_to_all(cases)
        else:
            say("no GPU: what FLA gives is left out")
    total = sum(file.stat().st_size for file in options.out.rglob("*") if file.is_file())
    say(f"{options.out}: {total / 1e6:.2f} MB")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
