# SPDX-License-Identifier: MIT
"""Times flash-linear-attention's operators with this project's shapes, inputs and method.

Needs torch, triton and fla-core (0.6.0) and a GPU; reads no network. One row is op x mode x shape x gates:

  python3 tools/peers/fla_ops.py --ops kda,gdn --shapes B1_T8192_H64_D128 --modes fwd,fwdbwd --json out.json
  python3 tools/peers/fla_ops.py --ops kda --modes decode --shapes B1_H32_D128,B256_H32_D128
  python3 tools/peers/fla_ops.py --ops kda,gdn --varlen ragged --shapes B1_T8192_H64_D128

fwd and fwdbwd are timed by events, the L2 flushed before each sample. `gpu ms` is without the host: a spinning kernel
keeps the GPU back while Python launches. `call ms` is the same span without that, as a caller sees it. fwdbwd is the
forward pass and torch.autograd.grad with a fixed gradient of the output. decode replays a graph over rotated states.
A row that fails says why and the next one runs. --json gets a line for the machine, then a line a row.
"""

import argparse
import dataclasses
import json
import re
import signal
import statistics
import subprocess
import sys
import time

FLUSH_BYTES = 256 << 20
ROTATION_BYTES = 512 << 20
SECONDS_A_BLOCK = 0.5
MOST_SAMPLES = 200
FEWEST_SAMPLES = 7
RWKV7_SCALE = -0.6065306597


@dataclasses.dataclass(frozen=True)
class Shape:
    """A shape by its name: B1_T8192_H64_D128, or B32_H32_D128 for decode (T = 1)."""
    name: str
    B: int
    T: int
    H: int
    D: int


@dataclasses.dataclass(frozen=True)
class Row:
    """What is timed."""
    op: str
    mode: str
    shape: Shape
    gates: str
    varlen: str

    def key(self):
        """A line of text that names the row."""
        return f"{self.op}|{self.mode}|{self.shape.name}|{self.gates}|{self.varlen or 'dense'}"


def parse_shape(name):
    """The Shape of a name."""
    match = re.fullmatch(r"B(\d+)(?:_T(\d+))?_H(\d+)_D(\d+)", name)
    if not match:
        raise argparse.ArgumentTypeError(f"shape '{name}' is not like B1_T8192_H64_D128 or B32_H32_D128")
    B, T, H, D = (int(text) if text else 1 for text in match.groups())
    return Shape(name, B, T, H, D)


def philox(seed, stream, counter):
    """Philox4x32-10, as src/core/philox.h."""
    mask = 0xFFFFFFFF
    x = [counter & mask, counter >> 32, stream & mask, stream >> 32]
    key = [seed & mask, seed >> 32]
    for _ in range(10):
        p0, p1 = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(p1 >> 32) ^ x[1] ^ key[0], p1 & mask, (p0 >> 32) ^ x[3] ^ key[1], p0 & mask]
        key = [(key[0] + 0x9E3779B9) & mask, (key[1] + 0xBB67AE85) & mask]
    return x


def ragged_offsets(total, seed):
    """The offsets that `fla bench ops --varlen ragged` draws for `total` tokens: 16 sequences."""
    cuts = {0, total}
    index = 0
    while len(cuts) < min(16, total) + 1:
        bits = philox(seed, 0x6C656E, index >> 2)[index & 3]
        cuts.add(min(total - 1, 1 + int((bits + 0.5) * 2.0**-32 * (total - 1))))
        index += 1
    return sorted(cuts)


def make_inputs(torch, row, seed):
    """Registry inputs (math.md 10.2) in bf16, named as the operators' arguments, and the keyword arguments."""
    import torch.nn.functional as F

    shape = row.shape
    generator = torch.Generator(device="cuda").manual_seed(seed)
    B, T = (1, shape.B * shape.T) if row.varlen else (shape.B, shape.T)

    def randn(*dims):
        return torch.randn(dims, generator=generator, device="cuda", dtype=torch.bfloat16)

    def gate(*dims):
        g = F.logsigmoid(randn(*dims))
        if row.gates == "slow":
            g = g * 2.0**-7
        elif row.gates == "zeros":  # of every fourth head; the heads are the third axis
            g[:, :, ::4] = 0
        return g

    wide = (B, T, shape.H, shape.D)
    heads = (B, T, shape.H)
    qkv = {name: randn(*wide) for name in "qkv"}
    if row.op == "kda":
        flags = {"use_qk_l2norm_in_kernel": True}
        if row.mode != "decode":
            flags |= {"safe_gate": True, "lower_bound": -5.0}
        return qkv | {"g": gate(*wide), "beta": randn(*heads).sigmoid()}, flags
    if row.op == "gdn":
        return qkv | {"g": gate(*heads), "beta": randn(*heads).sigmoid()}, {"use_qk_l2norm_in_kernel": True}
    if row.op == "gla":
        return qkv | {"g": gate(*wide).clamp_min(-5)}, {}
    if row.op == "simple_gla":
        return qkv | {"g": gate(*heads)}, {}
    if row.op == "delta_rule":
        return qkv | {"beta": randn(*heads).sigmoid()}, {}
    w = (RWKV7_SCALE * randn(*wide).sigmoid()).clamp(RWKV7_SCALE, -1e-6)
    return {"r": qkv["q"], "w": w, "k": qkv["k"], "v": qkv["v"], "a": 0.1 * randn(*wide),
            "b": 0.1 * randn(*wide)}, {"safe_gate": True, "chunk_size": 64}


def chunk_function(op):
    """The operator's chunk entry of fla.ops."""
    if op == "kda":
        from fla.ops.kda import chunk_kda as function
    elif op == "gdn":
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule as function
    elif op == "gla":
        from fla.ops.gla import chunk_gla as function
    elif op == "simple_gla":
        from fla.ops.simple_gla import chunk_simple_gla as function
    elif op == "delta_rule":
        from fla.ops.delta_rule import chunk_delta_rule as function
    else:
        from fla.ops.rwkv7 import chunk_rwkv7 as function
    return function


class Timer:
    """Event timing with a cold L2."""

    def __init__(self, torch):
        self.torch = torch
        self.flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.pattern = 0

    def sample(self, call, spin_cycles=0):
        """Milliseconds between two events around one call."""
        self.pattern = self.pattern % 251 + 1
        self.flush.fill_(self.pattern)
        if spin_cycles:
            self.torch.cuda._sleep(spin_cycles)
        self.events[0].record()
        call()
        self.events[1].record()
        self.torch.cuda.synchronize()
        return self.events[0].elapsed_time(self.events[1])

    def replay(self, graph):
        """Milliseconds of one replay right behind another, so that launching the graph does not count."""
        graph.replay()
        self.events[0].record()
        graph.replay()
        self.events[1].record()
        self.torch.cuda.synchronize()
        return self.events[0].elapsed_time(self.events[1])

    def samples(self, sample):
        """The samples of one block."""
        found = []
        end = time.monotonic() + SECONDS_A_BLOCK
        while len(found) < FEWEST_SAMPLES or (time.monotonic() < end and len(found) < MOST_SAMPLES):
            found.append(sample())
        return found

    def spin_for(self, call):
        """Cycles that hold the GPU back for longer than the host takes to launch `call`."""
        times = []
        for _ in range(3):
            self.torch.cuda.synchronize()
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        self.torch.cuda.synchronize()
        return int((2 * min(times) + 50e-6) * 2e9)


def describe(samples):
    """Median, quartiles and count of some milliseconds."""
    quartiles = statistics.quantiles(samples, n=4)
    return {"median_ms": statistics.median(samples), "q1_ms": quartiles[0], "q3_ms": quartiles[2],
            "min_ms": min(samples), "n": len(samples)}


def time_chunk(torch, timer, row, seed):
    """Times a chunk operator; the result's fields."""
    tensors, keywords = make_inputs(torch, row, seed)
    if row.varlen:
        offsets = ragged_offsets(row.shape.B * row.shape.T, seed)
        keywords["cu_seqlens"] = torch.tensor(offsets, device="cuda")
        keywords["cu_seqlens_cpu"] = torch.tensor(offsets)
    for tensor in tensors.values():
        tensor.requires_grad_(True)
    function = chunk_function(row.op)
    output = function(**tensors, **keywords)[0]
    grad = torch.randn_like(output)

    def forward():
        function(**tensors, **keywords)

    def forward_backward():
        torch.autograd.grad(function(**tensors, **keywords)[0], list(tensors.values()), grad, allow_unused=True)

    call = forward if row.mode == "fwd" else forward_backward
    start = time.monotonic()
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    call()
    found = {"warmup_s": time.monotonic() - start, "finite": bool(torch.isfinite(output).all()),
             "peak_bytes": torch.cuda.max_memory_allocated() - FLUSH_BYTES}
    found["call"] = describe(timer.samples(lambda: timer.sample(call)))
    spin_cycles = timer.spin_for(call)
    return found | describe(timer.samples(lambda: timer.sample(call, spin_cycles)))


def time_decode(torch, timer, row, seed):
    """Times one token of fused_recurrent_kda: a graph over rotated states, and single flushed calls."""
    from fla.ops.kda import fused_recurrent_kda
    from fla.ops.kda.fused_recurrent import fused_recurrent_kda_fwd

    in_place = row.op == "kda_inplace"
    tensors, keywords = make_inputs(torch, dataclasses.replace(row, op="kda"), seed)
    shape = row.shape
    bytes_a_set = shape.B * shape.H * shape.D * shape.D * 4
    copies = min(256, max(2, ROTATION_BYTES // bytes_a_set))
    states = [torch.randn(shape.B, shape.H, shape.D, shape.D, device="cuda") for _ in range(copies)]

    def step(state):
        if in_place:
            return fused_recurrent_kda_fwd(**tensors, **keywords, initial_state=state, inplace_final_state=True)
        return fused_recurrent_kda(**tensors, **keywords, initial_state=state, output_final_state=True)

    with torch.no_grad():
        output = step(states[0])[0]
        torch.cuda.synchronize()
        flushed = describe(timer.samples(lambda: timer.sample(lambda: step(states[0]))))
        graph = torch.cuda.CUDAGraph()
        kept = []  # so that every captured step writes memory of its own
        with torch.cuda.graph(graph):
            kept.extend(step(state) for state in states)
        graph.replay()
        torch.cuda.synchronize()
        replayed = [ms / copies for ms in timer.samples(lambda: timer.replay(graph))]
    return {"finite": bool(torch.isfinite(output).all()), "rotation": copies, "call": flushed} | describe(replayed)


def measure_peaks(torch, timer):
    """What a copy of 1 GiB and a bf16 product of 8192^3 reach."""
    source = torch.full((1 << 30,), 0x3A, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    product = torch.empty_like(left)
    copy_ms = statistics.median(timer.samples(lambda: timer.sample(lambda: target.copy_(source))))
    product_ms = statistics.median(
        timer.samples(lambda: timer.sample(lambda: torch.mm(left, right, out=product))))
    return {"copy_tb_per_s": 2 * source.numel() / copy_ms * 1e-9,
            "bf16_tflop_per_s": 2 * 8192.0**3 / product_ms * 1e-9}


def nvidia_smi(fields):
    """The first GPU's values of some nvidia-smi fields; empty where it does not run."""
    try:
        done = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [value.strip() for value in done.stdout.strip().split(",")]


def machine(torch):
    """What is measured on, and with what."""
    import fla
    import triton

    return {"gpu": torch.cuda.get_device_name(0), "sms": torch.cuda.get_device_properties(0).multi_processor_count,
            "driver": (nvidia_smi("driver_version") or [None])[0], "torch": torch.__version__,
            "cuda": torch.version.cuda, "triton": triton.__version__, "fla": fla.__version__}


def run_row(torch, timer, row, options):
    """One row's result; a failure becomes its reason."""

    def on_alarm(_signal, _frame):
        raise TimeoutError(f"over {options.row_timeout} s (autotuning included)")

    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(options.row_timeout)
    start = time.monotonic()
    result = {"key": row.key(), "op": row.op, "mode": row.mode, "shape": row.shape.name, "gates": row.gates,
              "coverage": row.varlen or "dense"}
    try:
        timed = time_decode if row.mode == "decode" else time_chunk
        result |= {"status": "ok"} | timed(torch, timer, row, options.seed)
        result["sm_mhz"] = (nvidia_smi("clocks.sm") or [None])[0]
    except Exception as error:  # whatever a library throws is that row's result
        text = str(error).strip().splitlines() or [""]
        result |= {"status": "failed", "reason": f"{type(error).__name__}: {text[0][:300]}"}
    finally:
        signal.alarm(0)
    torch.cuda.empty_cache()
    result["elapsed_s"] = round(time.monotonic() - start, 1)
    return result


def print_table(results):
    """The rows as aligned text, then why rows failed."""
    cells = [["op", "mode", "shape", "gates", "coverage", "gpu ms", "quartiles", "call ms", "finite", "elapsed s"]]
    failures = []
    for row in results:
        figures = ["-", "-", "-"]
        if row["status"] == "ok":
            figures = [f"{row['median_ms']:.4f}", f"[{row['q1_ms']:.4f}, {row['q3_ms']:.4f}]",
                       f"{row['call']['median_ms']:.4f}"]
        else:
            failures.append(f"failed: {row['key']}: {row['reason']}")
        cells.append([row["op"], row["mode"], row["shape"], row["gates"], row["coverage"], *figures,
                      str(row.get("finite", "-")), str(row["elapsed_s"])])
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip())
    print("\n".join(failures), flush=True)


def all_rows(options):
    """Every row that the options ask for."""
    rows = []
    for shape in options.shapes:
        for op in options.ops:
            for mode in options.modes:
                if mode == "decode":
                    if op == "kda":
                        rows += [Row(name, mode, shape, "registry", "") for name in ("kda", "kda_inplace")]
                    continue
                for gates in options.gates if op not in ("delta_rule", "rwkv7") else ["registry"]:
                    rows.append(Row(op, mode, shape, gates, ""))
                    if options.varlen and op in ("kda", "gdn"):
                        rows.append(Row(op, mode, shape, gates, options.varlen))
    return rows


def parse(arguments):
    """The options."""
    known = {"ops": ["kda", "gdn", "gla", "simple_gla", "delta_rule", "rwkv7"], "modes": ["fwd", "fwdbwd", "decode"],
             "gates": ["registry", "slow", "zeros"]}

    def names(kind):
        def split(text):
            found = known[kind] if text == "all" else text.split(",")
            unknown = [name for name in found if name not in known[kind]]
            if unknown:
                raise argparse.ArgumentTypeError(f"unknown {unknown[0]}; known: {', '.join(known[kind])}")
            return found
        return split

    def shapes(text):
        return [parse_shape(name) for name in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=names("ops"), default=known["ops"], help="names by comma (default: all)")
    parser.add_argument("--shapes", type=shapes, default=shapes("B1_T8192_H64_D128"), help="by comma")
    parser.add_argument("--modes", type=names("modes"), default=["fwd"],
                        help="fwd, fwdbwd, and decode (kda alone) (default: fwd)")
    parser.add_argument("--gates", type=names("gates"), default=["registry"],
                        help="registry, slow (times 1/128), zeros (g = 0 in every fourth head)")
    parser.add_argument("--varlen", choices=["ragged"], help="packed rows of kda and gdn beside the dense ones")
    parser.add_argument("--seed", type=int, default=20250603)
    parser.add_argument("--row-timeout", type=int, default=240, help="seconds a row, autotuning included")
    parser.add_argument("--peaks", action="store_true", help="measure what a copy and a bf16 product reach")
    parser.add_argument("--list", action="store_true", help="print the rows and the ragged offsets; needs no GPU")
    parser.add_argument("--json", help="file for JSON lines")
    return parser.parse_args(arguments)


def list_rows(rows, seed):
    """Prints what would be timed."""
    for row in rows:
        offsets = ragged_offsets(row.shape.B * row.shape.T, seed) if row.varlen else []
        print(" ".join([row.key(), *map(str, offsets)]))


def main(arguments):
    """Runs the program; its exit status."""
    options = parse(arguments)
    rows = all_rows(options)
    if options.list:
        list_rows(rows, options.seed)
        return 0
    import torch

    if not torch.cuda.is_available():
        print("fla_ops: torch finds no GPU", file=sys.stderr)
        return 5
    timer = Timer(torch)
    head = machine(torch) | {"seed": options.seed, "argv": arguments}
    if options.peaks:
        head["peaks"] = measure_peaks(torch, timer)
        torch.cuda.empty_cache()
    print(json.dumps(head), flush=True)
    lines = [head]
    for i, row in enumerate(rows):
        result = run_row(torch, timer, row, options)
        lines.append(result)
        print(f"[{i + 1}/{len(rows)}] {json.dumps(result)}", file=sys.stderr, flush=True)
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
    print_table(lines[1:])
    return 0 if any(line["status"] == "ok" for line in lines[1:]) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
