// SPDX-License-Identifier: MIT
// Runs E1's kernel in the emulator: every wgmma form against a product in double precision.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e1.cuh"

namespace fla::lab {
namespace {

/// An operand [rows, 256 bytes]: as the kernel reads it, and its values.
struct Operand {
  Operand(int rows, bool tf32, uint64_t seed) : words(static_cast<size_t>(rows) * 64) {
    const size_t per_word = tf32 ? 1 : 2;
    for (size_t i = 0; i < words.size() * per_word; ++i) {
      const float x = uniform(i + seed);
      values.push_back(tf32 ? round_to_tf32(x) : round_to_bf16(x));
      words[i / per_word] |=
          tf32 ? bits_of(values[i]) : static_cast<uint32_t>(float_to_bf16(x)) << (16 * (i % 2));
    }
  }
  std::vector<uint32_t> words;
  std::vector<float> values;
};

template <Form kForm, int kN, int kAccumulators>
bool agrees(int warpgroups) {
  constexpr size_t kK = kTf32<kForm> ? 64 : 128;
  const Operand a(64, kTf32<kForm>, 0), b(kN, kTf32<kForm>, 777777);
  std::vector<float> out(size_t{4} * 64 * kN, NAN);
  std::vector<Interval> intervals(4);
  emulate(1, 128 * warpgroups, kProductShared, WgmmaTime::kWait, [&] {
    rate_kernel<kForm, kN, kAccumulators, 512>(a.words.data(), b.words.data(), out.data(),
                                               intervals.data(), 1);
  });
  double error = 0, largest = 0;
  for (size_t row = 0; row < static_cast<size_t>(warpgroups) * 64; ++row)
    for (size_t n = 0; n < kN; ++n) {
      double sum = 0;
      for (size_t k = 0; k < kK; ++k)
        sum += static_cast<double>(a.values[row % 64 * kK + k]) *
               static_cast<double>(b.values[n * kK + k]);
      const double got = static_cast<double>(out[row * kN + n]);
      error = std::isnan(got) ? INFINITY : std::max(error, std::fabs(got - kRepeats * sum));
      largest = std::max(largest, std::fabs(kRepeats * sum));
    }
  const bool ok = error <= 1e-4 * largest;
  std::printf("form %d, N %3d, %d accumulators, %d warpgroups: error %.1e of %.1f%s\n",
              static_cast<int>(kForm), kN, kAccumulators, warpgroups, error, largest,
              ok ? "" : "  WRONG");
  return ok;
}

template <Form kForm>
bool all_sizes_agree() {
  return agrees<kForm, 16, 1>(1) & agrees<kForm, 32, 2>(1) & agrees<kForm, 64, 1>(2) &
         agrees<kForm, 128, 1>(4) & agrees<kForm, 256, 1>(2);
}

}  // namespace
}  // namespace fla::lab

int main() {
  using fla::lab::Form;
  const bool ok =
      fla::lab::all_sizes_agree<Form::kSs>() & fla::lab::all_sizes_agree<Form::kSsAMn>() &
      fla::lab::all_sizes_agree<Form::kSsBMn>() & fla::lab::all_sizes_agree<Form::kRs>() &
      fla::lab::all_sizes_agree<Form::kRsBMn>() & fla::lab::all_sizes_agree<Form::kSsTf32>() &
      fla::lab::all_sizes_agree<Form::kRsTf32>();
  return ok ? 0 : 1;
}
