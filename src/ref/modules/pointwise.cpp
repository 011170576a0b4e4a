// SPDX-License-Identifier: MIT
// Elementwise modules in fp64: SwiGLU, the functions, add, lerp.
#include "ref/modules/common.h"

namespace fla::ref {
namespace {

template <class Visit>
void for_each_element(const ModuleDesc& d, Visit visit) {
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t c = 0; c < d.width; ++c)
      visit(r, c);
  }
}

void swiglu_forward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows x(t.in[slot::SwiGlu::x]), y(t.out[slot::SwiGlu::y]);
  for_each_element(d, [&](int64_t r, int64_t c) {
    y(r, c) = evaluate(Function::kSilu, 1, x(r, c)).f * x(r, d.width + c);
  });
}

void swiglu_backward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows x(t.in[slot::SwiGlu::x]), d_y(t.d_out[slot::SwiGlu::y]);
  const Gradient d_x(t, slot::SwiGlu::x);
  for_each_element(d, [&](int64_t r, int64_t c) {
    const Value silu = evaluate(Function::kSilu, 1, x(r, c));
    const double up = x(r, d.width + c);
    d_x.put(r, c, d_y(r, c) * up * silu.slope);
    d_x.put(r, d.width + c, d_y(r, c) * silu.f);
  });
}

void pointwise_forward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows x(t.in[slot::Pointwise::x]), y(t.out[slot::Pointwise::y]);
  for_each_element(d, [&](int64_t r, int64_t c) {
    y(r, c) = evaluate(d.function, static_cast<double>(d.scale), x(r, c)).f;
  });
}

void pointwise_backward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows x(t.in[slot::Pointwise::x]), d_y(t.d_out[slot::Pointwise::y]);
  const Gradient d_x(t, slot::Pointwise::x);
  for_each_element(d, [&](int64_t r, int64_t c) {
    d_x.put(r, c, d_y(r, c) * evaluate(d.function, static_cast<double>(d.scale), x(r, c)).slope);
  });
}

void add_forward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows a(t.in[slot::Add::a]), b(t.in[slot::Add::b]), y(t.out[slot::Add::y]);
  for_each_element(d, [&](int64_t r, int64_t c) { y(r, c) = a(r, c) + b(r, c); });
}

/// A sum hands its gradient on; nobody asks for a copy.
void add_backward(const ModuleDesc& /*d*/, const ModuleTensors& /*t*/) {}

void lerp_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Lerp;
  const Rows x(t.in[S::x]), first(t.in[S::first]), logit(t.in[S::logit]), y(t.out[S::y]);
  for_each_element(d, [&](int64_t r, int64_t c) {
    y(r, c) = x(r, c) + (first(r, c) - x(r, c)) * logistic(logit(r, c));
  });
}

void lerp_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Lerp;
  const Rows x(t.in[S::x]), first(t.in[S::first]), logit(t.in[S::logit]), d_y(t.d_out[S::y]);
  const Gradient d_x(t, S::x), d_first(t, S::first), d_logit(t, S::logit);
  for_each_element(d, [&](int64_t r, int64_t c) {
    const double s = logistic(logit(r, c));
    const double g = d_y(r, c);
    const double step = first(r, c) - x(r, c);
    d_x.put(r, c, g * (1 - s));
    d_first.put(r, c, g * s);
    d_logit.put(r, c, g * step * s * (1 - s));
  });
}

}  // namespace

const ModuleKernel kSwiGlu = {swiglu_forward, swiglu_backward};
const ModuleKernel kPointwise = {pointwise_forward, pointwise_backward};
const ModuleKernel kAdd = {add_forward, add_backward};
const ModuleKernel kLerp = {lerp_forward, lerp_backward};

}  // namespace fla::ref
