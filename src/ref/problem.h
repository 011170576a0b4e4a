// SPDX-License-Identifier: MIT
// Problem and Arrays: a call of the reference after its views were gathered into contiguous arrays.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fla/op.h"

namespace fla::ref {

/// Rows [begin, end) of the flattened token axis [B*T].
struct Sequence {
  int64_t begin = 0;
  int64_t end = 0;
};

/// What is computed. Dimensions and switches come from the descriptor; its B, T and N are said by
/// `sequences`.
struct Problem {
  OpDesc desc;
  double scale = 1.0;
  int64_t num_tokens = 0;  // rows of the flattened token axis
  std::vector<Sequence> sequences;
};

/// Contiguous row-major arrays by slot, in the shapes of fla/op.h. An empty array was not given.
template <class S>
class Arrays {
 public:
  std::vector<S>& operator[](Slot slot) { return data_[static_cast<size_t>(slot)]; }
  const std::vector<S>& operator[](Slot slot) const { return data_[static_cast<size_t>(slot)]; }
  bool has(Slot slot) const { return !(*this)[slot].empty(); }

 private:
  std::array<std::vector<S>, kNumSlots> data_;
};

/// One head of one sequence: where its rows are in the arrays.
struct Head {
  int64_t begin = 0;      // first token
  int64_t end = 0;        // one past the last token
  int64_t key_head = 0;   // h of H
  int64_t head = 0;       // hv of HV
  int64_t key_state = 0;  // row of [N,H,...]
  int64_t state = 0;      // row of [N,HV,...]
  int64_t H = 0;
  int64_t HV = 0;

  int64_t key_row(int64_t t) const { return t * H + key_head; }  // row of [B*T,H,...]
  int64_t row(int64_t t) const { return t * HV + head; }         // row of [B*T,HV,...]
};

/// Every value head of every sequence; value head hv reads the keys of head hv / (HV / H).
inline std::vector<Head> heads(const Problem& problem) {
  const int64_t H = problem.desc.H;
  const int64_t HV = problem.desc.value_heads();
  std::vector<Head> all;
  for (int64_t n = 0; n < static_cast<int64_t>(problem.sequences.size()); ++n) {
    const Sequence& sequence = problem.sequences[static_cast<size_t>(n)];
    for (int64_t hv = 0; hv < HV; ++hv) {
      const int64_t h = hv / (HV / H);
      all.push_back({sequence.begin, sequence.end, h, hv, n * H + h, n * HV + hv, H, HV});
    }
  }
  return all;
}

/// Every key head of every sequence, for what is computed once a group of value heads.
inline std::vector<Head> key_heads(const Problem& problem) {
  Problem keys = problem;
  keys.desc.HV = problem.desc.H;
  return heads(keys);
}

}  // namespace fla::ref
