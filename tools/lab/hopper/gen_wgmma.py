#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes wgmma.inc: one thin overload of wgmma.mma_async a kind, type and N.

usage: gen_wgmma.py OUTPUT     The accumulator's size selects N: float d[N / 2].
"""

import sys
from pathlib import Path


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{i}" for i in range(first, first + count)) + "}"


def overload(kind: str, dtype: str, n: int) -> str:
    """kind: ss or rs. Transposition flags exist for bf16 alone: A's only if it lies in shared memory."""
    count = n // 2
    parameters = ["int kScaleD"]
    if kind == "ss":
        arguments, inputs = ["uint64_t da", "uint64_t db"], ['"l"(da)', '"l"(db)']
        operands = f"%{count}, %{count + 1}"
    else:
        arguments = [f"uint32_t a{i}" for i in range(4)] + ["uint64_t db"]
        inputs = [f'"r"(a{i})' for i in range(4)] + ['"l"(db)']
        operands = f"{registers(count, 4)}, %{count + 4}"
    flags = {"tf32": [], "bf16": ["kTransposeA", "kTransposeB"] if kind == "ss" else ["kTransposeB"]}[dtype]
    parameters += [f"int {flag}" for flag in flags]
    scale = count + len(inputs)
    inputs += [f'"n"({name})' for name in ["kScaleD", *flags]]
    tail = ", ".join(["1", "1"] + [f"%{scale + 1 + i}" for i in range(len(flags))])
    outputs = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    depth = 8 if dtype == "tf32" else 16
    return f"""template <{", ".join(parameters)}>
__device__ __forceinline__ void wgmma_{kind}_{dtype}(float (&d)[{count}], {", ".join(arguments)}) {{
  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{scale}, 0;\\n"
    "wgmma.mma_async.sync.aligned.m64n{n}k{depth}.f32.{dtype}.{dtype} "
    "{registers(0, count)}, {operands}, p, {tail};\\n}}\\n"
    : {outputs}
    : {", ".join(inputs)});
}}
"""


def main() -> int:
    text = "// Written by gen_wgmma.py.\n"
    for n in (16, 32, 64, 128, 256):
        for kind in ("ss", "rs"):
            text += overload(kind, "bf16", n)
            if n in (32, 64, 128):
                text += overload(kind, "tf32", n)
    Path(sys.argv[1]).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
