// SPDX-License-Identifier: MIT
// What host and device compute alike: swizzle, wgmma descriptors, bf16, tf32, random numbers.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define FLA_LAB_BOTH __host__ __device__ __forceinline__
#else
#define FLA_LAB_BOTH inline
#endif

namespace fla::lab {

// Shared-memory tiles are 64 x 64 bf16 with the 128-byte swizzle, aligned to 1024 bytes.
constexpr int kTileBytes = 8192;
constexpr int kMaxShared = 232448;

/// Byte offset of (row, byte column 0..127) in a tile of 128-byte rows with the 128-byte swizzle.
FLA_LAB_BOTH uint32_t swizzle(uint32_t row, uint32_t byte) {
  return row * 128 + (byte ^ ((row & 7) << 4));
}

// Descriptors of wgmma operands with the 128-byte swizzle; groups of 8 rows are 1024 bytes apart.
//   K-major: rows of 128 bytes along K. A k-step inside a row: start address + 32 bytes.
//   MN-major: one row a k, of 64 bf16 along M or N; the next 64 are `next` bytes further.
//     A k-step of 16: start address + 2048 bytes.
// Kernels keep the low word and add offsets in units of 16 bytes; the high word is constant.
constexpr uint32_t kDescriptorHigh = (1U << 30) | (1024U >> 4);

FLA_LAB_BOTH uint32_t descriptor_low(uint32_t address, uint32_t next = 16) {
  return (address >> 4) | ((next >> 4) << 16);
}
FLA_LAB_BOTH uint64_t descriptor(uint32_t low) {
  return (uint64_t{kDescriptorHigh} << 32) | low;
}

FLA_LAB_BOTH uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
FLA_LAB_BOTH float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/// The bf16 in the low 16 bits.
FLA_LAB_BOTH float bf16_to_float(uint32_t half) {
  return float_of(half << 16);
}
/// To nearest even; finite input.
FLA_LAB_BOTH uint16_t float_to_bf16(float value) {
  const uint32_t bits = bits_of(value);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
FLA_LAB_BOTH float round_to_bf16(float value) {
  return bf16_to_float(float_to_bf16(value));
}
/// Ten mantissa bits, to nearest even.
FLA_LAB_BOTH float round_to_tf32(float value) {
  const uint32_t bits = bits_of(value);
  return float_of((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000);
}

FLA_LAB_BOTH uint32_t hash32(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  x ^= x >> 33;
  return static_cast<uint32_t>(x);
}
/// Uniform in (-1, 1), a function of the seed alone.
FLA_LAB_BOTH float uniform(uint64_t seed) {
  const uint32_t bits = hash32(seed * 0x9E3779B97F4A7C15ULL + 0x1234567ULL) >> 8;
  return (static_cast<float>(bits) + 0.5F) * (2.0F / 16777216.0F) - 1.0F;
}

}  // namespace fla::lab
