// SPDX-License-Identifier: MIT
// Host emulator of the instructions in ptx.cuh: runs a kernel on the CPU to check its indices, its
// barriers and its results. Not a timing model. Threads are fibers in random order; wgmma groups
// run either at their commit or as late as a wait allows; bulk copies land in random order after
// random delays. An error ends the program with a message.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>

#include "tools/lab/hopper/bits.h"

// The words nvcc knows and g++ does not.
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)

namespace fla::lab {

/// When the products of a wgmma group happen: at the commit, or at the wait that needs them.
enum class WgmmaTime { kCommit, kWait };

/// Runs `kernel` for every CTA of the grid, one after the other.
void emulate(int ctas, int threads, int shared_bytes, WgmmaTime time,
             const std::function<void()>& kernel);

namespace emulated {
[[noreturn]] void die(const char* what);
void* shared(uint32_t address, uint32_t bytes);  // checked against range and alignment
/// D[64, 2 count] (+)= A B of the calling warpgroup; `a`: A's fragment, or null when A is in shared
/// memory at `da`.
void wgmma(int count, bool tf32, bool accumulate, bool transpose_a, bool transpose_b, uint64_t da,
           const uint32_t* a, uint64_t db, float* d);
void wgmma_wait(int pending);
void bulk_wait(int pending);
void store_matrix(bool transposed, uint32_t address, const uint32_t (&r)[4]);
void mma(bool tf32, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
}  // namespace emulated

int thread_idx();
int num_threads();
int cta_idx();
int num_ctas();
void sync_cta();
void sync_warp();
void sync_named(int id, int threads);
int warp_uniform(int value);
float shuffle_up(float value, int distance);
template <int kRegisters>
void registers_grow() {}
template <int kRegisters>
void registers_shrink() {}

uint32_t clock32();
int64_t clock_cycles();
int64_t clock_ns();

inline void wgmma_fence() {}
void wgmma_commit();
template <int kPending>
void wgmma_wait() {
  emulated::wgmma_wait(kPending);
}
template <int kScaleD, int kTransposeA, int kTransposeB, int kCount>
void wgmma_ss_bf16(float (&d)[kCount], uint64_t da, uint64_t db) {
  emulated::wgmma(kCount, false, kScaleD != 0, kTransposeA != 0, kTransposeB != 0, da, nullptr, db,
                  d);
}
template <int kScaleD, int kTransposeB, int kCount>
void wgmma_rs_bf16(float (&d)[kCount], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                   uint64_t db) {
  const uint32_t a[4] = {a0, a1, a2, a3};
  emulated::wgmma(kCount, false, kScaleD != 0, false, kTransposeB != 0, 0, a, db, d);
}
template <int kScaleD, int kCount>
void wgmma_ss_tf32(float (&d)[kCount], uint64_t da, uint64_t db) {
  emulated::wgmma(kCount, true, kScaleD != 0, false, false, da, nullptr, db, d);
}
template <int kScaleD, int kCount>
void wgmma_rs_tf32(float (&d)[kCount], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                   uint64_t db) {
  const uint32_t a[4] = {a0, a1, a2, a3};
  emulated::wgmma(kCount, true, kScaleD != 0, false, false, 0, a, db, d);
}
template <class T, int kCount>
void pin(T (&)[kCount]) {}

inline float opaque_zero() {
  return 0.0F;
}
inline uint32_t pack_bf16(float low, float high) {
  return uint32_t{float_to_bf16(low)} | (uint32_t{float_to_bf16(high)} << 16);
}
inline uint32_t mul_bf16x2(uint32_t a, uint32_t b) {
  return pack_bf16(bf16_to_float(a & 0xFFFF) * bf16_to_float(b & 0xFFFF),
                   float_of(a & 0xFFFF0000) * float_of(b & 0xFFFF0000));
}
inline uint32_t to_tf32(float x) {
  return bits_of(round_to_tf32(x));
}
inline float exp2_approx(float x) {
  return x < -126.0F ? 0.0F : std::exp2(x);
}

uint32_t shared_base();
inline uint32_t fixed_shared_base() {
  return shared_base();
}
inline void store_u32(uint32_t a, uint32_t v) {
  memcpy(emulated::shared(a, 4), &v, 4);
}
inline void store_u16(uint32_t a, uint16_t v) {
  memcpy(emulated::shared(a, 2), &v, 2);
}
inline void store_f32(uint32_t a, float v) {
  memcpy(emulated::shared(a, 4), &v, 4);
}
inline void store_f32x2(uint32_t a, float x, float y) {
  const float v[2] = {x, y};
  memcpy(emulated::shared(a, 8), v, 8);
}
inline void store_u32x4(uint32_t a, const uint32_t (&v)[4]) {
  memcpy(emulated::shared(a, 16), v, 16);
}
inline uint32_t load_u32(uint32_t a) {
  uint32_t v;
  memcpy(&v, emulated::shared(a, 4), 4);
  return v;
}
inline float load_f32(uint32_t a) {
  return float_of(load_u32(a));
}
inline void load_f32x2(uint32_t a, float& x, float& y) {
  memcpy(&x, emulated::shared(a, 8), 4);
  memcpy(&y, emulated::shared(a + 4, 4), 4);
}
inline void load_f32x4(uint32_t a, float (&v)[4]) {
  memcpy(v, emulated::shared(a, 16), 16);
}
inline void load_u32x4(uint32_t a, uint32_t (&v)[4]) {
  memcpy(v, emulated::shared(a, 16), 16);
}
inline void fence_async() {}

void load_matrix_x4(uint32_t a, uint32_t (&r)[4]);
inline void store_matrix_x4(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2, uint32_t r3) {
  emulated::store_matrix(false, a, {r0, r1, r2, r3});
}
inline void store_matrix_x4_transposed(uint32_t a, uint32_t r0, uint32_t r1, uint32_t r2,
                                       uint32_t r3) {
  emulated::store_matrix(true, a, {r0, r1, r2, r3});
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::mma(false, d, a, b0, b1);
}
inline void mma_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::mma(true, d, a, b0, b1);
}

void barrier_init(uint32_t b, uint32_t count);
inline void barrier_init_fence() {}
void barrier_expect(uint32_t b, uint32_t bytes);
void barrier_arrive(uint32_t b);
void barrier_wait(uint32_t b, uint32_t parity);
void bulk_load(uint32_t dst, const void* src, uint32_t bytes, uint32_t barrier);
void bulk_store(void* dst, uint32_t src, uint32_t bytes);
void bulk_commit();
template <int kPending>
void bulk_wait_read() {
  emulated::bulk_wait(kPending);
}
template <int kPending>
void bulk_wait() {
  emulated::bulk_wait(kPending);
}

}  // namespace fla::lab
