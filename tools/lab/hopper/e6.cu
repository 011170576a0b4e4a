// SPDX-License-Identifier: MIT
// E6 and E7: rates of exponentials, FMA and mma.sync alone and beside wgmma; how exact the
// exponentials are.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "tools/lab/hopper/e6.cuh"
#include "tools/lab/hopper/host.cuh"

namespace fla::lab {
namespace {

/// out[4 i ..]: 2^x by ex2.approx, polynomial, clamped polynomial, bf16x2, for x in [-126, 2).
__device__ __host__ float argument(int i, int count) {
  return -126.0F + 128.0F * static_cast<float>(i) / static_cast<float>(count);
}
__global__ void exponentials_kernel(float* out, int count) {
  const int i = cta_idx() * num_threads() + thread_idx();
  const float x = argument(i, count);
  out[4 * i] = exp2_approx(x);
  out[4 * i + 1] = exp2_polynomial(x);
  out[4 * i + 2] = exp2_clamped(x);
  out[4 * i + 3] = bf16_to_float(exp2_bf16x2(pack_bf16(x, x)) & 0xFFFFU);
}
bool exponentials_are_right() {
  constexpr int kCount = 1 << 20;
  constexpr const char* kNames[] = {"ex2.approx.ftz.f32", "degree-3 polynomial", "clamped at -126",
                                    "ex2.approx.ftz.bf16x2 (of the rounded argument)"};
  constexpr double kLimits[] = {1e-6, 1e-4, 1e-4, 8e-3};
  float* out = device_zeros<float>(size_t{4} * kCount);
  exponentials_kernel<<<kCount / 256, 256>>>(out, kCount);
  synchronize();
  const auto got = to_host(out, size_t{4} * kCount);
  std::printf("\n-- 2^x on [-125, 2): largest relative error\n");
  bool all_ok = true;
  for (int kind = 0; kind < 4; ++kind) {
    double error = 0;
    for (int i = 0; i < kCount; ++i) {
      const float x = argument(i, kCount);
      const double exact = std::exp2(static_cast<double>(kind == 3 ? round_to_bf16(x) : x));
      const double e = std::fabs(got[4 * i + kind] / exact - 1);
      if (exact > 2.4e-38)
        error = e <= error ? error : e;  // also when e is not a number
    }
    const bool ok = error <= kLimits[kind];
    all_ok &= ok;
    std::printf("   %-50s %.2e%s\n", kNames[kind], error, ok ? "" : "  WRONG");
  }
  return all_ok;
}

struct Buffers {
  const uint16_t *a, *b;
  float *out, *sink;
  CycleSpan* spans;
  int sms;
};
/// Medians over the CTAs, and whether one side ran during all of the other's time.
struct Spent {
  double tensor = 0, work = 0;
  bool tensor_covers = true, work_covers = true;
};

template <Work kWork, Form kForm, int kN>
Spent measure(const Buffers& o, int workers, int tensor_rounds, int work_rounds) {
  for (int run = 0; run < 2; ++run)  // the first one warms up
    beside_kernel<kWork, kForm, kN><<<o.sms, 128 * (1 + workers), kProductShared>>>(
        o.a, o.b, o.out, o.sink, o.spans, tensor_rounds, work_rounds);
  synchronize();
  const auto spans = to_host(o.spans, static_cast<size_t>(o.sms) * 4);
  std::vector<double> tensor, work;
  Spent spent;
  for (int cta = 0; cta < o.sms; ++cta) {
    const CycleSpan& t = spans[cta * 4];
    CycleSpan w = spans[cta * 4 + 1];
    for (int i = 2; i <= workers; ++i)
      w = {std::min(w.begin, spans[cta * 4 + i].begin), std::max(w.end, spans[cta * 4 + i].end)};
    tensor.push_back(static_cast<double>(t.end - t.begin));
    work.push_back(static_cast<double>(w.end - w.begin));
    spent.tensor_covers &= t.end >= w.end;
    spent.work_covers &= w.end >= t.end;
  }
  spent.tensor = median(tensor);
  spent.work = median(work);
  return spent;
}

/// per_round: results of one warpgroup's round.
template <Work kWork, Form kForm, int kN>
void cell(const Buffers& o, int workers, double per_round) {
  constexpr int kRounds = 1024, kGroup = kRepeats * kKSteps;
  const auto run = [&](double tensor_rounds, int work_rounds) {
    return measure<kWork, kForm, kN>(o, workers, static_cast<int>(tensor_rounds), work_rounds);
  };
  allow_shared(&beside_kernel<kWork, kForm, kN>, kProductShared);
  const double alone = run(0, kRounds).work;
  const double rounds = std::max(8.0, std::floor(alone / (kGroup * kN / 2.0)));
  const double tensor_alone = run(rounds, 0).tensor / rounds;
  const double same_time = std::max(8.0, std::floor(alone / tensor_alone));
  Spent work_beside, tensor_beside;  // each measured while the other side outlasts it
  for (int factor = 2; factor <= 16; factor *= 2) {
    work_beside = run(factor * same_time + 8, kRounds);
    if (work_beside.tensor_covers)
      break;
  }
  for (int factor = 2; factor <= 16; factor *= 2) {
    tensor_beside = run(same_time, kRounds * factor);
    if (tensor_beside.work_covers)
      break;
  }
  const double results = per_round * workers * kRounds;
  const double instruction = tensor_beside.tensor / same_time;
  std::printf(" %7.1f %7.1f%s %3.0f%% | %6.2f %6.2f%s %3.0f%% |", results / alone,
              results / work_beside.work, work_beside.tensor_covers ? " " : "?",
              100 * alone / work_beside.work, tensor_alone / kGroup, instruction / kGroup,
              tensor_beside.work_covers ? " " : "?", 100 * tensor_alone / instruction);
}
template <Work kWork>
void row(const Buffers& o, const char* name, double per_round) {
  for (const int workers : {1, 2}) {
    std::printf("   %-42s %d |", name, workers);
    cell<kWork, Form::kRs, 64>(o, workers, per_round);
    cell<kWork, Form::kRsBMn, 128>(o, workers, per_round);
    cell<kWork, Form::kSs, 64>(o, workers, per_round);
    std::printf("\n");
  }
}

int run() {
  Buffers o;
  o.sms = print_device("E6, E7: exponentials and mma.sync beside wgmma");
  o.a = to_device(random_bf16(64 * 128, 0).halves);
  o.b = to_device(random_bf16(256 * 128, 1000000).halves);
  o.out = device_zeros<float>(4 * 64 * 256);
  o.sink = device_zeros<float>(static_cast<size_t>(o.sms) * 512);
  o.spans = device_zeros<CycleSpan>(static_cast<size_t>(o.sms) * 4);
  const bool ok = exponentials_are_right();

  std::printf(
      "\n-- rates an SM and clock of 1 or 2 warpgroups, alone and beside one of wgmma; "
      "cycles a wgmma alone and beside them\n");
  std::printf("   (a '?' marks a time that the other side did not cover; %d CTAs)\n", o.sms);
  std::printf("   %-42s WG | %46s | %46s | %46s |\n", "", "RS m64n64k16 (ideal 32)",
              "RS m64n128k16, B MN-major (ideal 64)", "SS m64n64k16 (ideal 32)");
  constexpr double kResults = 32 * 128;
  row<Work::kExp2>(o, "ex2.approx.ftz.f32, results", kResults);
  row<Work::kExp2Bf16x2>(o, "ex2.approx.ftz.bf16x2 (and a LOP3), results", 2 * kResults);
  row<Work::kPolynomial>(o, "degree-3 polynomial exp2, results", kResults);
  row<Work::kClampedPolynomial>(o, "the same with a clamp at -126, results", kResults);
  row<Work::kMix>(o, "2 of 3 ex2.approx, 1 of 3 polynomial", kResults);
  row<Work::kFma>(o, "FFMA, lanes", kResults);
  row<Work::kGate>(o, "gate mix (2 ex2, 3 mul, pack), elements", kResults / 2);
  row<Work::kMma>(o, "mma.sync m16n8k16, FMA (wgmma's peak: 2048)", 16.0 * 4 * 16 * 8 * 16);
  std::printf("\nE6 %s\n", ok ? "ok" : "FAILED");
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace fla::lab

int main() {
  return fla::lab::run();
}
