// SPDX-License-Identifier: MIT
// Elementwise modules: SwiGLU, the functions, add, lerp.
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

void swiglu_forward(const ModuleRun& run) {
  const int64_t width = run.desc.width;
  const Rows x = run.in(slot::SwiGlu::x), y = run.out(slot::SwiGlu::y);
  for_each_row(run, [&](int64_t r) {
    const float* gate = x[r];
    for (int64_t c = 0; c < width; ++c)
      y[r][c] = evaluate(Function::kSilu, 1, gate[c]).f * gate[width + c];
  });
}

void swiglu_backward(const ModuleRun& run) {
  const int64_t width = run.desc.width;
  const Rows x = run.in(slot::SwiGlu::x), d_y = run.d_out(slot::SwiGlu::y);
  const Rows d_x = run.d_in(slot::SwiGlu::x);
  for_each_row(run, [&](int64_t r) {
    const float* gate = x[r];
    for (int64_t c = 0; c < width; ++c) {
      const Value silu = evaluate(Function::kSilu, 1, gate[c]);
      const float g = d_y[r][c];
      put(d_x[r], false, c, g * gate[width + c] * silu.slope);
      put(d_x[r], false, width + c, g * silu.f);
    }
  });
}

void pointwise_forward(const ModuleRun& run) {
  const ModuleDesc& d = run.desc;
  const Rows x = run.in(slot::Pointwise::x), y = run.out(slot::Pointwise::y);
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < d.width; ++c)
      y[r][c] = evaluate(d.function, d.scale, x[r][c]).f;
  });
}

void pointwise_backward(const ModuleRun& run) {
  using S = slot::Pointwise;
  const ModuleDesc& d = run.desc;
  const Rows x = run.in(S::x), d_y = run.d_out(S::y), d_x = run.d_in(S::x);
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < d.width; ++c)
      put(d_x[r], run.adds(S::x), c, d_y[r][c] * evaluate(d.function, d.scale, x[r][c]).slope);
  });
}

void add_forward(const ModuleRun& run) {
  using S = slot::Add;
  const Rows a = run.in(S::a), b = run.in(S::b), y = run.out(S::y);
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < run.desc.width; ++c)
      y[r][c] = a[r][c] + b[r][c];
  });
}

/// A sum hands its gradient on; nobody asks for a copy.
void add_backward(const ModuleRun& /*run*/) {}

void lerp_forward(const ModuleRun& run) {
  using S = slot::Lerp;
  const Rows x = run.in(S::x), first = run.in(S::first), logit = run.in(S::logit);
  const Rows y = run.out(S::y);
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < run.desc.width; ++c)
      y[r][c] = x[r][c] + (first[r][c] - x[r][c]) * logistic(logit[r][c]);
  });
}

void lerp_backward(const ModuleRun& run) {
  using S = slot::Lerp;
  const Rows x = run.in(S::x), first = run.in(S::first), logit = run.in(S::logit);
  const Rows d_y = run.d_out(S::y), d_x = run.d_in(S::x), d_first = run.d_in(S::first);
  const Rows d_logit = run.d_in(S::logit);
  for_each_row(run, [&](int64_t r) {
    for (int64_t c = 0; c < run.desc.width; ++c) {
      const float s = logistic(logit[r][c]);
      const float g = d_y[r][c];
      const float step = first[r][c] - x[r][c];
      put(d_x[r], run.adds(S::x), c, g * (1 - s));
      put(d_first[r], run.adds(S::first), c, g * s);
      put(d_logit[r], run.adds(S::logit), c, g * step * s * (1 - s));
    }
  });
}

}  // namespace

const ModuleKernel kSwiGlu = {swiglu_forward, swiglu_backward, no_scratch};
const ModuleKernel kPointwise = {pointwise_forward, pointwise_backward, no_scratch};
const ModuleKernel kAdd = {add_forward, add_backward, no_scratch};
const ModuleKernel kLerp = {lerp_forward, lerp_backward, no_scratch};

}  // namespace fla::cpu
