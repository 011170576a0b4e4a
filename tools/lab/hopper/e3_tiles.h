// SPDX-License-Identifier: MIT
// Made-up tiles of E3 and its reference recurrence, for the device program and the emulation.
#pragma once

#include <cstdint>

#include "tools/lab/hopper/bits.h"

namespace fla::lab {

/// Element `i` < 32768 (byte 2 i) of chunk `chunk`: W', q', kd, T, M one after the other. The
/// scales keep the recurrence contracting: decay in (0.7, 0.9), kd^T W' small.
FLA_LAB_BOTH uint16_t chunk_element(uint64_t chunk, uint32_t i) {
  const float scale = i < 8192 ? 0.087F : i < 16384 ? 0.17F : i < 24576 ? 0.0173F : 0.17F;
  return float_to_bf16(scale * uniform(chunk * 65536 + i));
}
FLA_LAB_BOTH float chunk_decay(uint64_t chunk, uint32_t i) {
  return 0.8F + 0.1F * uniform(chunk * 65536 + 40000 + i);
}
FLA_LAB_BOTH uint16_t v_element(uint64_t i) {
  return float_to_bf16(1.7F * uniform(i + 0x7000000000ULL));
}
/// Of 64-column tiles side by side.
FLA_LAB_BOTH float tile_element(const uint8_t* tile, uint32_t row, uint32_t column) {
  uint16_t half;
  memcpy(&half, tile + (column >> 6) * kTileBytes + swizzle(row, (column & 63) * 2), 2);
  return bf16_to_float(half);
}

struct ReferenceInput {
  const uint8_t *chunks, *v;  // of the CTA
  int v_bytes;                // a chunk
  int num_chunks, ring;
  bool rounds;  // S, U and O become bf16 where the kernel rounds them
};
/// One value row. o: [num_chunks][64]; s: [128]; scratch: [192].
FLA_LAB_BOTH void reference_row(const ReferenceInput& in, int row, float* o, float* s,
                                float* scratch) {
  const auto round = [&](float x) { return in.rounds ? round_to_bf16(x) : x; };
  float *u = scratch, *s_operand = scratch + 64;
  for (int k = 0; k < 128; ++k)
    s[k] = 0.0F;
  for (int t = 0; t < in.num_chunks; ++t, o += 64) {
    const uint8_t* w = in.chunks + static_cast<int64_t>(t % in.ring) * 66048;
    const uint8_t *q = w + 16384, *kd = w + 32768, *tt = w + 49152, *m = w + 57344;
    const uint8_t* v = in.v + static_cast<int64_t>(t % in.ring) * in.v_bytes;
    for (int k = 0; k < 128; ++k)
      s_operand[k] = round(s[k]);
    for (int i = 0; i < 64; ++i) {
      float sum = 0.0F, output = 0.0F;
      for (int j = 0; j < 64; ++j)
        sum += tile_element(tt, i, j) * tile_element(v, j, row);
      for (int k = 0; k < 128; ++k)
        sum += tile_element(w, i, k) * s_operand[k];
      for (int k = 0; k < 128; ++k)
        output += tile_element(q, i, k) * s_operand[k];
      u[i] = round(sum);
      o[i] = output;
    }
    for (int i = 0; i < 64; ++i) {
      float output = o[i];
      for (int j = 0; j < 64; ++j)
        output += tile_element(m, i, j) * u[j];
      o[i] = round(output);
    }
    for (int k = 0; k < 128; ++k) {
      float decay;
      memcpy(&decay, w + 65536 + 4 * k, 4);
      float sum = s[k] * decay;
      for (int i = 0; i < 64; ++i)
        sum += tile_element(kd, i, k) * u[i];
      s[k] = sum;
    }
  }
}

/// |got - reference| over |reference|, and the largest difference over the largest reference.
struct Difference {
  double squares = 0, reference_squares = 0;
  void add(float got, float reference) {
    const double d = static_cast<double>(got) - static_cast<double>(reference);
    squares += d * d;
    reference_squares += static_cast<double>(reference) * static_cast<double>(reference);
  }
};

}  // namespace fla::lab
