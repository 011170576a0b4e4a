// SPDX-License-Identifier: MIT
// E1: are all wgmma forms right, and how many cycles does an instruction of each take?
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e1.cuh"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

constexpr const char* kNames[] = {
    "SS", "SS, A MN-major", "SS, B MN-major", "RS", "RS, B MN-major", "SS tf32", "RS tf32"};
constexpr int kWarpgroups = 2;  // of the checks and of the sustained run

struct Operands {
  Values a_half, b_half, a_tf32, b_tf32;
  const void *a_half_device, *b_half_device, *a_tf32_device, *b_tf32_device;
  float* out;
  Interval* intervals;
  int sms;
};

Operands make_operands(int sms) {
  Operands o;
  o.a_half = random_bf16(64 * 128, 0);
  o.b_half = random_bf16(256 * 128, 1000000);
  o.a_tf32 = random_tf32(64 * 64, 2000000);
  o.b_tf32 = random_tf32(256 * 64, 3000000);
  o.a_half_device = to_device(o.a_half.halves);
  o.b_half_device = to_device(o.b_half.halves);
  o.a_tf32_device = to_device(o.a_tf32.floats);
  o.b_tf32_device = to_device(o.b_tf32.floats);
  o.out = device_zeros<float>(4 * 64 * 256);
  o.intervals = device_zeros<Interval>(static_cast<size_t>(sms) * 4);
  o.sms = sms;
  return o;
}

template <Form kForm, int kN, int kAccumulators, int kMaxThreads>
struct Rate {
  static constexpr auto* kKernel = &rate_kernel<kForm, kN, kAccumulators, kMaxThreads>;

  static void launch(const Operands& o, int ctas, int warpgroups, int iterations) {
    allow_shared(kKernel, kProductShared);
    kKernel<<<ctas, 128 * warpgroups, kProductShared>>>(
        kTf32<kForm> ? o.a_tf32_device : o.a_half_device,
        kTf32<kForm> ? o.b_tf32_device : o.b_half_device, o.out, o.intervals, iterations);
    synchronize();
  }

  /// Against a product in double precision.
  static bool agrees(const Operands& o) {
    constexpr int kK = kTf32<kForm> ? 64 : 128;
    check(cudaMemset(o.out, 0xFF, 4 * 64 * 256 * sizeof(float)), "cudaMemset");
    launch(o, 1, kWarpgroups, 1);
    const auto got = to_host(o.out, size_t{kWarpgroups} * 64 * kN);
    const auto& a = kTf32<kForm> ? o.a_tf32.floats : o.a_half.floats;
    const auto& b = kTf32<kForm> ? o.b_tf32.floats : o.b_half.floats;
    double error = 0, largest = 0;
    for (int row = 0; row < kWarpgroups * 64; ++row)
      for (int n = 0; n < kN; ++n) {
        double sum = 0;
        for (int k = 0; k < kK; ++k)
          sum += static_cast<double>(a[row % 64 * kK + k]) * b[n * kK + k];
        const double e = std::fabs(got[row * kN + n] - kRepeats * sum);
        error = e <= error ? error : e;  // also when e is not a number
        largest = std::max(largest, std::fabs(kRepeats * sum));
      }
    const bool ok = error <= 1e-4 * largest;
    std::printf("   %-16s N %3d, %d accumulators: error %.1e of %.1f%s\n",
                kNames[static_cast<int>(kForm)], kN, kAccumulators, error, largest,
                ok ? "" : "  WRONG");
    return ok;
  }

  struct Speed {
    double cycles, ghz;  // an instruction and SM
  };
  static Speed measure(const Operands& o, int ctas, int warpgroups, int64_t target_cycles) {
    constexpr int kGroup = kRepeats * kKSteps;
    const int64_t ideal = int64_t{kGroup} * (kN / 2) * warpgroups;
    const int iterations = static_cast<int>(std::max<int64_t>(8, target_cycles / ideal));
    launch(o, ctas, warpgroups, std::max(4, iterations / 8));
    launch(o, ctas, warpgroups, iterations);
    const auto intervals = to_host(o.intervals, static_cast<size_t>(ctas) * 4);
    std::vector<double> cycles, ghz;
    for (int cta = 0; cta < ctas; ++cta) {
      Interval all = intervals[cta * 4];
      for (int w = 1; w < warpgroups; ++w) {
        const Interval& one = intervals[cta * 4 + w];
        all = {std::min(all.begin, one.begin), std::max(all.end, one.end),
               std::min(all.begin_ns, one.begin_ns), std::max(all.end_ns, one.end_ns)};
      }
      const auto spent = static_cast<double>(all.end - all.begin);
      cycles.push_back(spent / (static_cast<double>(iterations) * kGroup * warpgroups));
      ghz.push_back(spent / static_cast<double>(std::max<int64_t>(1, all.end_ns - all.begin_ns)));
    }
    return {median(cycles), median(ghz)};
  }
};

template <Form kForm, int kN, int kAccumulators>
struct CheckRow {
  static bool run(const Operands& o) { return Rate<kForm, kN, kAccumulators, 256>::agrees(o); }
};

template <Form kForm, int kN, int kAccumulators>
struct RateRow {
  static bool run(const Operands& o) {
    constexpr int64_t kTarget = 300000;
    std::printf("   %-16s %4d %4d %6d |", kNames[static_cast<int>(kForm)], kN, kAccumulators,
                kN / 2);
    double ghz = 0;
    for (const int ctas : {1, o.sms}) {
      for (const int warpgroups : {1, 2}) {
        const auto speed =
            Rate<kForm, kN, kAccumulators, 256>::measure(o, ctas, warpgroups, kTarget);
        std::printf(" %7.2f %3.0f%%", speed.cycles, 50 * kN / speed.cycles);
        ghz = speed.ghz;
      }
      if constexpr (kN * kAccumulators <= 64) {
        const auto speed = Rate<kForm, kN, kAccumulators, 512>::measure(o, ctas, 4, kTarget);
        std::printf(" %7.2f %3.0f%% |", speed.cycles, 50 * kN / speed.cycles);
      } else {
        std::printf("             |");
      }
    }
    std::printf(" %5.2f\n", ghz);
    return true;
  }
};

template <template <Form, int, int> class Row, Form kForm, int... kNs>
bool for_sizes(const Operands& o) {
  return (Row<kForm, kNs, 1>::run(o) & ...);
}
template <template <Form, int, int> class Row>
bool for_all(const Operands& o) {
  return for_sizes<Row, Form::kSs, 16, 32, 64, 128, 256>(o) &
         for_sizes<Row, Form::kSsAMn, 32, 64, 128>(o) &
         for_sizes<Row, Form::kSsBMn, 64, 128, 256>(o) &
         for_sizes<Row, Form::kRs, 16, 32, 64, 128, 256>(o) &
         for_sizes<Row, Form::kRsBMn, 64, 128, 256>(o) &
         for_sizes<Row, Form::kSsTf32, 32, 64, 128>(o) &
         for_sizes<Row, Form::kRsTf32, 32, 64, 128>(o) & Row<Form::kRs, 32, 2>::run(o) &
         Row<Form::kRs, 64, 2>::run(o) & Row<Form::kSs, 32, 2>::run(o);
}

/// About 0.1 s on all SMs, so that the clock settles under load.
template <Form kForm, int kN>
void sustained(const Operands& o) {
  const auto speed = Rate<kForm, kN, 1, 256>::measure(o, o.sms, kWarpgroups, 200000000);
  std::printf("   %-16s N %3d: %.2f cycles an instruction, %.3f GHz, %.0f TFLOP/s\n",
              kNames[static_cast<int>(kForm)], kN, speed.cycles, speed.ghz,
              2.0 * 64 * kN * 16 / speed.cycles * speed.ghz * o.sms / 1e3);
}

int run() {
  const Operands o = make_operands(print_device("E1: wgmma back to back"));
  std::printf("\n-- numerics: D = %d A B^T, against double precision\n", kRepeats);
  const bool ok = for_all<CheckRow>(o);
  std::printf(
      "\n-- cycles an instruction and SM, and share of the peak; acc: accumulators in turn\n");
  std::printf("   %-16s %4s %4s %6s | %12s %12s %12s | %12s %12s %12s |   GHz\n", "form", "N",
              "acc", "ideal", "1 CTA 1 WG", "2 WG", "4 WG", "all 1 WG", "2 WG", "4 WG");
  for_all<RateRow>(o);
  std::printf("\n-- sustained, %d warpgroups\n", kWarpgroups);
  sustained<Form::kRs, 64>(o);
  sustained<Form::kRs, 128>(o);
  sustained<Form::kSs, 64>(o);
  sustained<Form::kSs, 256>(o);
  std::printf("\nE1 %s\n", ok ? "ok" : "FAILED: some products are wrong");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main() {
  return fla::lab::run();
}
