// SPDX-License-Identifier: MIT
// Causal softmax attention in fp64, from its definition.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/module_indices.h"
#include "ref/modules/common.h"

namespace fla::ref {
namespace {

using S = slot::Attention;

/// Keys [first, end) that a query sees, and the matrices that hold them.
struct Keys {
  Rows k, v;
  int64_t row = 0;     // of key 0 of the sequence
  int64_t column = 0;  // of the head, in k and v
  int64_t first = 0;
  int64_t end = 0;
};

/// A cache of one sequence as rows of tokens.
Rows cache_rows(const ModuleDesc& d, const TensorView& cache, int64_t sequence) {
  const int64_t channels = d.width / d.heads * d.key_heads();
  double* data = static_cast<double*>(cache.data) + sequence * d.cache_length * channels;
  return Rows(contiguous_view(data, DType::kFp64, {d.cache_length, channels}));
}

int64_t position(const ModuleDesc& d, const ModuleTensors& t, int64_t sequence) {
  return d.cache_length > 0 ? static_cast<const int32_t*>(t.in[S::positions].data)[sequence] : 0;
}

void fill_caches(const ModuleDesc& d, const ModuleTensors& t, const ModuleSequences& sequences) {
  const int64_t channels = d.width / d.heads * d.key_heads();
  for (int64_t n = 0; n < sequences.count() && d.cache_length > 0; ++n) {
    const RowRange rows = sequences[n];
    for (int64_t r = rows.first; r < rows.end; ++r) {
      const int64_t place = position(d, t, n) + r - rows.first;
      const Rows k = cache_rows(d, t.in[S::k_cache], n), v = cache_rows(d, t.in[S::v_cache], n);
      std::copy_n(Rows(t.in[S::k]).row(r), channels, k.row(place));
      std::copy_n(Rows(t.in[S::v]).row(r), channels, v.row(place));
    }
  }
}

/// Calls visit(row, head, keys) for every query.
template <class Visit>
void for_each_query(const ModuleDesc& d, const ModuleTensors& t, Visit visit) {
  const ModuleSequences sequences(d, t.in[S::cu_seqlens]);
  const bool cached = d.cache_length > 0;
  for (int64_t n = 0; n < sequences.count(); ++n) {
    const RowRange rows = sequences[n];
    Keys keys{cached ? cache_rows(d, t.in[S::k_cache], n) : Rows(t.in[S::k]),
              cached ? cache_rows(d, t.in[S::v_cache], n) : Rows(t.in[S::v]),
              cached ? 0 : rows.first};
    for (int64_t r = rows.first; r < rows.end; ++r) {
      keys.end = position(d, t, n) + r - rows.first + 1;
      keys.first = d.window > 0 ? std::max<int64_t>(0, keys.end - d.window) : 0;
      for (int64_t head = 0; head < d.heads; ++head) {
        keys.column = head / (d.heads / d.key_heads()) * (d.width / d.heads);
        visit(r, head, keys);
      }
    }
  }
}

double product(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

void forward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows q(t.in[S::q]), y(t.out[S::y]), lse(t.out[S::lse]);
  const int64_t size = d.width / d.heads;
  fill_caches(d, t, ModuleSequences(d, t.in[S::cu_seqlens]));
  for_each_query(d, t, [&](int64_t r, int64_t head, const Keys& keys) {
    const int64_t column = head * size;
    std::vector<double> scores;
    for (int64_t i = keys.first; i < keys.end; ++i)
      scores.push_back(static_cast<double>(d.scale) *
                       product(q.row(r) + column, keys.k.row(keys.row + i) + keys.column, size));
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (const double score : scores)
      sum += std::exp(score - largest);
    lse(r, head) = largest + std::log(sum);
    std::fill_n(y.row(r) + column, size, 0.0);
    for (int64_t i = keys.first; i < keys.end; ++i) {
      const double p = std::exp(scores[static_cast<size_t>(i - keys.first)] - lse(r, head));
      for (int64_t c = 0; c < size; ++c)
        y(r, column + c) += p * keys.v(keys.row + i, keys.column + c);
    }
  });
}

/// p = exp(s - lse): d_v = p d_y; d_s = p (d_y v - d_y y); d_q = scale d_s k; d_k = scale d_s q.
void backward(const ModuleDesc& d, const ModuleTensors& t) {
  const Rows q(t.in[S::q]), y(t.out[S::y]), lse(t.out[S::lse]), d_y(t.d_out[S::y]);
  const int64_t size = d.width / d.heads;
  const int64_t key_width = size * d.key_heads();
  std::vector<double> q_sum(static_cast<size_t>(d.rows * d.width));
  std::vector<double> k_sum(static_cast<size_t>(d.rows * key_width)), v_sum(k_sum.size());
  for_each_query(d, t, [&](int64_t r, int64_t head, const Keys& keys) {
    const int64_t column = head * size;
    const double* q_row = q.row(r) + column;
    const double* d_y_row = d_y.row(r) + column;
    const double along = product(d_y_row, y.row(r) + column, size);
    for (int64_t i = keys.row + keys.first; i < keys.row + keys.end; ++i) {
      const double* k_row = keys.k.row(i) + keys.column;
      const double scale = static_cast<double>(d.scale);
      const double p = std::exp(scale * product(q_row, k_row, size) - lse(r, head));
      const double d_s = scale * p * (product(d_y_row, keys.v.row(i) + keys.column, size) - along);
      for (int64_t c = 0; c < size; ++c) {
        q_sum[static_cast<size_t>(r * d.width + column + c)] += d_s * k_row[c];
        k_sum[static_cast<size_t>(i * key_width + keys.column + c)] += d_s * q_row[c];
        v_sum[static_cast<size_t>(i * key_width + keys.column + c)] += p * d_y_row[c];
      }
    }
  });
  const Gradient d_q(t, S::q), d_k(t, S::k), d_v(t, S::v);
  for (int64_t r = 0; r < d.rows; ++r) {
    for (int64_t c = 0; c < d.width; ++c)
      d_q.put(r, c, q_sum[static_cast<size_t>(r * d.width + c)]);
    for (int64_t c = 0; c < key_width; ++c) {
      d_k.put(r, c, k_sum[static_cast<size_t>(r * key_width + c)]);
      d_v.put(r, c, v_sum[static_cast<size_t>(r * key_width + c)]);
    }
  }
}

}  // namespace

const ModuleKernel kAttention = {forward, backward};

}  // namespace fla::ref
