// SPDX-License-Identifier: MIT
// Linear, embedding, and the linear layer with cross entropy, in fp64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ref/modules/common.h"

namespace fla::ref {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

void linear_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Linear;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]), y(t.out[S::y]);
  const Rows bias(t.in[S::bias]), residual(t.in[S::residual]);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t o = 0; o < d.out; ++o) {
      double sum = dot(x.row(r), weight.row(o), d.width);
      if (d.has(S::bias))
        sum += bias(0, o);
      if (d.has(S::residual))
        sum += residual(r, o);
      y(r, o) = sum;
    }
  }
}

/// d_x = d_y W and d_W = d_y^T x, written into `d_x` and `d_weight`.
void linear_gradients(int64_t rows, int64_t width, int64_t out, const Rows& d_y, const Rows& x,
                      const Rows& weight, const Gradient& d_x, const Gradient& d_weight) {
  for (int64_t c = 0; c < width; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t o = 0; o < out; ++o)
        sum += d_y(r, o) * weight(o, c);
      d_x.put(r, c, sum);
    }
    for (int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r)
        sum += d_y(r, o) * x(r, c);
      d_weight.put(o, c, sum);
    }
  }
}

void linear_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Linear;
  const Rows d_y(t.d_out[S::y]);
  linear_gradients(d.rows, d.width, d.out, d_y, Rows(t.in[S::x]), Rows(t.in[S::weight]),
                   Gradient(t, S::x), Gradient(t, S::weight));
  if (!d.has(S::bias))
    return;
  const Gradient d_bias(t, S::bias);
  for (int64_t o = 0; o < d.out; ++o) {
    double sum = 0;
    for (int64_t r = 0; r < d.rows; ++r)
      sum += d_y(r, o);
    d_bias.put(0, o, sum);
  }
}

void embedding_forward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Embedding;
  const int32_t* ids = static_cast<const int32_t*>(t.in[S::ids].data);
  const Rows table(t.in[S::table]), y(t.out[S::y]);
  for (int64_t r = 0; r < d.rows; ++r)
    std::copy_n(table.row(ids[r]), d.width, y.row(r));
}

void embedding_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::Embedding;
  const int32_t* ids = static_cast<const int32_t*>(t.in[S::ids].data);
  const Rows d_y(t.d_out[S::y]);
  const Gradient d_table(t, S::table);
  for (int64_t o = 0; o < d.out; ++o) {
    std::vector<double> sum(static_cast<size_t>(d.width));
    for (int64_t r = 0; r < d.rows; ++r) {
      for (int64_t c = 0; c < d.width && ids[r] == o; ++c)
        sum[static_cast<size_t>(c)] += d_y(r, c);
    }
    for (int64_t c = 0; c < d.width; ++c)
      d_table.put(o, c, sum[static_cast<size_t>(c)]);
  }
}

/// The loss, and softmax - onehot over the number of targets, [rows, out].
double cross_entropy(const ModuleDesc& d, const ModuleTensors& t, std::vector<double>* d_logits) {
  using S = slot::LinearCrossEntropy;
  const Rows x(t.in[S::x]), weight(t.in[S::weight]);
  const int32_t* labels = static_cast<const int32_t*>(t.in[S::labels].data);
  const auto targets = std::count_if(labels, labels + d.rows, [](int32_t id) { return id >= 0; });
  double loss = 0;
  d_logits->assign(static_cast<size_t>(d.rows * d.out), 0.0);
  for (int64_t r = 0; r < d.rows; ++r) {
    if (labels[r] < 0)
      continue;
    double* logits = d_logits->data() + r * d.out;
    for (int64_t o = 0; o < d.out; ++o)
      logits[o] = dot(x.row(r), weight.row(o), d.width);
    const double largest = *std::max_element(logits, logits + d.out);
    double sum = 0;
    for (int64_t o = 0; o < d.out; ++o)
      sum += std::exp(logits[o] - largest);
    const double log_sum = largest + std::log(sum);
    loss += (log_sum - logits[labels[r]]) / static_cast<double>(targets);
    for (int64_t o = 0; o < d.out; ++o) {
      const double hit = o == labels[r] ? 1 : 0;
      logits[o] = (std::exp(logits[o] - log_sum) - hit) / static_cast<double>(targets);
    }
  }
  return loss;
}

void cross_entropy_forward(const ModuleDesc& d, const ModuleTensors& t) {
  std::vector<double> unused;
  Rows(t.out[slot::LinearCrossEntropy::loss])(0, 0) = cross_entropy(d, t, &unused);
}

void cross_entropy_backward(const ModuleDesc& d, const ModuleTensors& t) {
  using S = slot::LinearCrossEntropy;
  std::vector<double> d_logits;
  const double loss = cross_entropy(d, t, &d_logits);
  if (const Rows to(t.out[S::loss]); to)
    to(0, 0) = loss;
  const Rows d_y(contiguous_view(d_logits.data(), DType::kFp64, {d.rows, d.out}));
  linear_gradients(d.rows, d.width, d.out, d_y, Rows(t.in[S::x]), Rows(t.in[S::weight]),
                   Gradient(t, S::x), Gradient(t, S::weight));
}

}  // namespace

const ModuleKernel kLinear = {linear_forward, linear_backward};
const ModuleKernel kEmbedding = {embedding_forward, embedding_backward};
const ModuleKernel kLinearCrossEntropy = {cross_entropy_forward, cross_entropy_backward};

}  // namespace fla::ref
