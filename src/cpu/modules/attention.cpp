// SPDX-License-Identifier: MIT
// Causal softmax attention: a plain baseline, one query or one key at a time.
#include <limits>

#include "core/module_indices.h"
#include "cpu/modules/common.h"

namespace fla::cpu {
namespace {

using S = slot::Attention;

/// A call's sizes, and where its keys are.
class Heads {
 public:
  explicit Heads(const ModuleRun& run)
      : run_(run),
        sequences_(run.desc, run.tensors.in[S::cu_seqlens]),
        size_(run.desc.width / run.desc.heads),
        group_(run.desc.heads / run.desc.key_heads()) {}

  int64_t size() const { return size_; }
  int64_t group() const { return group_; }
  int64_t key_width() const { return size_ * run_.desc.key_heads(); }
  int64_t key_column(int64_t head) const { return head / group_ * size_; }
  const ModuleSequences& sequences() const { return sequences_; }

  /// Tokens of sequence `n` before its first row.
  int64_t position(int64_t n) const {
    if (run_.desc.cache_length == 0)
      return 0;
    return static_cast<const int32_t*>(run_.tensors.in[S::positions].data)[n];
  }
  /// k or v of a sequence, its token 0 first: rows of the call, or the cache.
  Rows tokens(size_t input, size_t cache, const RowRange& rows) const {
    if (run_.desc.cache_length == 0) {
      const Rows all = run_.in(input);
      return {all[rows.first], all.stride()};
    }
    return {run_.in(cache)[rows.index], key_width()};
  }
  /// The first key that the query at `place` of its sequence sees; the last one is `place`.
  int64_t first_key(int64_t place) const {
    const int64_t window = run_.desc.window;
    return window > 0 ? std::max<int64_t>(0, place - window + 1) : 0;
  }

 private:
  const ModuleRun& run_;
  ModuleSequences sequences_;
  int64_t size_;
  int64_t group_;
};

void fill_caches(const ModuleRun& run, const Heads& heads) {
  const ModuleSequences& sequences = heads.sequences();
  for (int64_t n = 0; n < sequences.count() && run.desc.cache_length > 0; ++n) {
    const RowRange rows = sequences[n];
    const Rows k = heads.tokens(S::k, S::k_cache, rows), v = heads.tokens(S::v, S::v_cache, rows);
    for (int64_t r = rows.first; r < rows.end; ++r) {
      const int64_t place = heads.position(n) + r - rows.first;
      std::copy_n(run.in(S::k)[r], heads.key_width(), k[place]);
      std::copy_n(run.in(S::v)[r], heads.key_width(), v[place]);
    }
  }
}

/// y of one query by the running softmax: sums are relative to the largest score so far.
void attend(const ModuleRun& run, const Heads& heads, int64_t r, int64_t head) {
  const RowRange rows = heads.sequences().holding(r);
  const Rows k = heads.tokens(S::k, S::k_cache, rows), v = heads.tokens(S::v, S::v_cache, rows);
  const int64_t size = heads.size(), column = heads.key_column(head);
  const int64_t place = heads.position(rows.index) + r - rows.first;
  const float* q = run.in(S::q)[r] + head * size;
  float* y = run.out(S::y)[r] + head * size;
  float largest = -std::numeric_limits<float>::infinity();
  float sum = 0;
  std::fill_n(y, size, 0.0F);
  for (int64_t i = heads.first_key(place); i <= place; ++i) {
    const float score = run.desc.scale * dot(q, k[i] + column, size);
    if (score > largest) {
      const float factor = std::exp(largest - score);
      sum *= factor;
      for (int64_t c = 0; c < size; ++c)
        y[c] *= factor;
      largest = score;
    }
    const float p = std::exp(score - largest);
    const float* value = v[i] + column;
    sum += p;
    for (int64_t c = 0; c < size; ++c)
      y[c] += p * value[c];
  }
  for (int64_t c = 0; c < size; ++c)
    y[c] /= sum;
  run.out(S::lse)[r][head] = largest + std::log(sum);
}

void forward(const ModuleRun& run) {
  const Heads heads(run);
  fill_caches(run, heads);
  parallel_for(run.threads, run.desc.rows * run.desc.heads, [&](int64_t task) {
    attend(run, heads, task / run.desc.heads, task % run.desc.heads);
  });
}

/// A query with its key: p = exp(s - lse), and d_s = p (d_y v - d_y y) times the scale.
struct Pair {
  float p = 0;
  float d_score = 0;
};

Pair pair_at(const ModuleRun& run, const Heads& heads, int64_t query, int64_t head, int64_t key,
             float along) {
  const int64_t size = heads.size(), column = heads.key_column(head);
  const float scale = run.desc.scale;
  const float score =
      scale * dot(run.in(S::q)[query] + head * size, run.in(S::k)[key] + column, size);
  const float p = std::exp(score - run.out(S::lse)[query][head]);
  const float d_p = dot(run.d_out(S::y)[query] + head * size, run.in(S::v)[key] + column, size);
  return {p, scale * p * (d_p - along)};
}

void query_gradient(const ModuleRun& run, const Heads& heads, int64_t r, int64_t head,
                    float along) {
  const RowRange rows = heads.sequences().holding(r);
  const int64_t size = heads.size(), column = heads.key_column(head);
  if (!run.d_in(S::q))
    return;
  float* d_q = run.d_in(S::q)[r] + head * size;
  std::fill_n(d_q, size, 0.0F);
  for (int64_t i = rows.first + heads.first_key(r - rows.first); i <= r; ++i) {
    const float d_score = pair_at(run, heads, r, head, i, along).d_score;
    const float* k = run.in(S::k)[i] + column;
    for (int64_t c = 0; c < size; ++c)
      d_q[c] += d_score * k[c];
  }
}

/// d_k and d_v of one key from the queries that see it, of all heads that share it.
void key_gradients(const ModuleRun& run, const Heads& heads, int64_t r, int64_t key_head,
                   const float* along) {
  const ModuleDesc& d = run.desc;
  const int64_t size = heads.size();
  const int64_t sequence_end = heads.sequences().holding(r).end;
  const int64_t end = d.window > 0 ? std::min(sequence_end, r + d.window) : sequence_end;
  float* d_k = run.d_in(S::k) ? run.d_in(S::k)[r] + key_head * size : nullptr;
  float* d_v = run.d_in(S::v) ? run.d_in(S::v)[r] + key_head * size : nullptr;
  for (float* gradient : {d_k, d_v}) {
    if (gradient != nullptr)
      std::fill_n(gradient, size, 0.0F);
  }
  for (int64_t query = r; query < end; ++query) {
    for (int64_t head = key_head * heads.group(); head < (key_head + 1) * heads.group(); ++head) {
      const Pair pair = pair_at(run, heads, query, head, r, along[query * d.heads + head]);
      const float* q = run.in(S::q)[query] + head * size;
      const float* d_y = run.d_out(S::y)[query] + head * size;
      for (int64_t c = 0; c < size; ++c) {
        if (d_k != nullptr)
          d_k[c] += pair.d_score * q[c];
        if (d_v != nullptr)
          d_v[c] += pair.p * d_y[c];
      }
    }
  }
}

void backward(const ModuleRun& run) {
  const Heads heads(run);
  const ModuleDesc& d = run.desc;
  float* along = run.scratch;  // d_y y a query and head
  parallel_for(run.threads, d.rows * d.heads, [&](int64_t task) {
    const int64_t r = task / d.heads, head = task % d.heads;
    const int64_t column = head * heads.size();
    along[task] = dot(run.d_out(S::y)[r] + column, run.out(S::y)[r] + column, heads.size());
    query_gradient(run, heads, r, head, along[task]);
  });
  parallel_for(run.threads, d.rows * d.key_heads(), [&](int64_t task) {
    key_gradients(run, heads, task / d.key_heads(), task % d.key_heads(), along);
  });
}

int64_t scratch(const ModuleDesc& d, Pass pass) {
  return pass == Pass::kBackward ? d.rows * d.heads : 0;
}

}  // namespace

const ModuleKernel kAttention = {forward, backward, scratch};

}  // namespace fla::cpu
