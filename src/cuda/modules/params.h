// SPDX-License-Identifier: MIT
// What the kernels of modules are told. Plain data, passed by value; null pointers are tensors that
// are not given. A call's floating tensors are all of one dtype.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/module.h"

namespace fla::cuda::modules {

inline constexpr int kThreads = 256;
inline constexpr int64_t kVectorBytes = 16;  // what a thread reads at once where all is aligned

/// [rows, channels], contiguous channels, `row` elements from one row to the next.
struct Matrix {
  void* data = nullptr;
  int64_t row = 0;
};

/// A cut of [rows, vectors] for kThreads threads a block: 2^lanes_log2 neighbouring threads have
/// neighbouring vectors of a row.
struct Tiling {
  int32_t rows = 0;
  int32_t vectors = 0;
  int32_t lanes_log2 = 0;
  int32_t column_blocks = 0;
};

inline int32_t log2_up(int64_t n) {
  int32_t log2 = 0;
  while ((int64_t{1} << log2) < n)
    ++log2;
  return log2;
}

inline Tiling make_tiling(int64_t rows, int64_t vectors) {
  Tiling t;
  t.rows = static_cast<int32_t>(rows);
  t.vectors = static_cast<int32_t>(vectors);
  t.lanes_log2 = std::min(log2_up(vectors), log2_up(kThreads));
  t.column_blocks =
      static_cast<int32_t>((vectors + (int64_t{1} << t.lanes_log2) - 1) >> t.lanes_log2);
  return t;
}

inline int64_t tiling_blocks(const Tiling& t) {
  const int64_t block_rows = kThreads >> t.lanes_log2;
  return (t.rows + block_rows - 1) / block_rows * t.column_blocks;
}

/// Threads that fill a large GPU when each walks over many rows.
inline constexpr int64_t kWalkers = int64_t{1} << 17;

/// Walkers over `rows` rows, so that all `lanes` lanes of a row together fill the GPU. Depends on
/// the sizes alone.
inline int64_t num_partitions(int64_t rows, int64_t lanes, int64_t walkers = kWalkers) {
  return std::max<int64_t>(1, std::min(rows, walkers / std::max<int64_t>(1, lanes)));
}

/// Where sequences lie in the rows: packed by cu_seqlens, or dense with `length` rows each.
struct Packing {
  const int32_t* cu_seqlens = nullptr;
  int32_t sequences = 0;
  int32_t rows = 0;
  int32_t length = 1;  // of a dense sequence
};

enum class MapOp : uint8_t {
  kPointwise,          // x -> y
  kPointwiseBackward,  // x, d_y -> d_x
  kSwiGlu,             // gate, up -> y
  kSwiGluBackward,     // gate, up, d_y -> d_gate, d_up
  kAdd,                // a, b -> y
  kLerp,               // x, first, logit -> y
  kLerpBackward,       // x, first, logit, d_y -> d_x, d_first, d_logit
  kHgrn2Gate,          // x, lower -> y
  kHgrn2GateBackward,  // x, lower, d_y -> d_x
};

/// Elementwise over rows and channels; a parameter of a row for all is a matrix with row 0.
struct Map {
  Tiling tiling;
  Matrix in[4];
  Matrix out[3];
  uint32_t accumulate = 0;  // bit i: out[i] is added to
  Function function = Function::kIdentity;
  float scale = 1.0F;
};

enum class SumOp : uint8_t {
  kColumn,          // d_y
  kHgrn2GateLower,  // x, lower, d_y: the gradient of lower
};

/// Sums over rows: walker w of each channel adds rows w, w + partitions, ... into partial [w,
/// channels].
struct ColumnSum {
  Tiling tiling;  // of [partitions, vectors]
  Matrix in[3];
  float* partial = nullptr;
  int32_t rows = 0;
  int32_t columns = 0;
};

/// out [columns] = the sum of partial [count, columns], in a fixed order, rounded once.
struct Finish {
  const float* partial = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  int64_t columns = 0;
  bool accumulate = false;
};

enum class NormKind : uint8_t { kRms, kGatedRms, kLayer };

/// Norms over the heads' channels of each row. A team of 2^team_log2 threads has a head's `vectors`
/// vectors of channels.
struct Norm {
  Matrix x, gate, y;
  Matrix d_y, d_x, d_gate;
  const void* weight = nullptr;
  const void* bias = nullptr;
  float* d_weight = nullptr;  // partial [partitions, heads, channels]
  float* d_bias = nullptr;
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t channels = 0;  // of a head
  int32_t vectors = 0;
  int32_t team_log2 = 0;
  int32_t partitions = 0;  // backward: walkers over the rows of a head
  float eps = 0.0F;
  float scale = 1.0F;
  Function function = Function::kIdentity;
  bool shared_weight = false;
  bool gate_first = false;
  bool add_x = false;  // d_x, d_gate are added to
  bool add_gate = false;
};

/// A thread has a vector of channels and walks over `walk` rows.
inline constexpr int kConvThreads = 128;
inline constexpr int kConvVector = 4;  // channels; more would not fit the registers
struct ShortConv {
  Packing packing;
  Matrix x, y, d_y, d_x;
  const void* weight = nullptr;  // [width, taps]
  const void* bias = nullptr;
  const void* initial = nullptr;  // [sequences, width, taps - 1]
  void* final = nullptr;
  int64_t initial_row = 0;  // elements from one sequence to the next
  int64_t final_row = 0;
  float* d_weight = nullptr;  // partial [walks, width, taps]
  float* d_bias = nullptr;    // partial [walks, width]
  int32_t width = 0;
  int32_t taps = 0;
  int32_t walk = 0;
  int32_t column_blocks = 0;
  Function function = Function::kIdentity;
  float scale = 1.0F;
  bool ends_sequences = false;  // no walk crosses into another sequence: each writes its final
};

/// table [out, width] rows of ids; backward sorts (id, row) pairs and sums the rows of an id in
/// pieces of kEmbeddingPiece pairs.
inline constexpr int kEmbeddingPiece = 32;
struct Embedding {
  const int32_t* ids = nullptr;
  Matrix y;  // or its gradient
  const void* table = nullptr;
  void* d_table = nullptr;
  int64_t table_row = 0;
  uint64_t* pairs = nullptr;  // [padded], ascending: id in the high half, row in the low
  float* partial = nullptr;   // [pieces, 2, width]: runs that come from before, that go on behind
  int32_t rows = 0;
  int32_t padded = 0;  // rows rounded up to a power of two
  int32_t width = 0;
  int32_t vocabulary = 0;
  int32_t column_blocks = 0;  // of pieces and runs
  Tiling tiling;              // of the forward pass
  bool accumulate = false;
};

/// One merge step of the bitonic sort of pairs: distance `stride` within runs of `run`.
inline constexpr int kSortTile = 4096;
inline constexpr int kSortThreads = 1024;
struct SortStep {
  uint64_t* pairs = nullptr;
  int32_t padded = 0;
  int32_t run = 0;
  int32_t stride = 0;
};

/// Logits [rows of a block, vocabulary], whose row 0 is token `first`.
struct CrossEntropy {
  void* logits = nullptr;
  const int32_t* labels = nullptr;  // [rows]
  float* row_loss = nullptr;        // [rows]
  float* targets = nullptr;         // [1] how many
  float* loss = nullptr;            // [1]
  int32_t first = 0;
  int32_t rows = 0;  // of the whole call
  int32_t vocabulary = 0;
  int64_t stride = 0;     // elements from one row of logits to the next: full vectors
  bool gradient = false;  // writes d loss / d logits over the logits
};

/// to [count] = from, rounded.
struct Convert {
  const float* from = nullptr;
  void* to = nullptr;
  int64_t count = 0;
  bool accumulate = false;
};

inline constexpr int kAdamWVector = 4;
struct AdamW {
  void* param = nullptr;
  const void* grad = nullptr;
  void* m = nullptr;
  void* v = nullptr;
  float* master = nullptr;
  const float* schedule = nullptr;
  const float* norm = nullptr;
  int64_t count = 0;
  float beta1 = 0.0F;
  float beta2 = 0.0F;
  float eps = 0.0F;
  float weight_decay = 0.0F;
  float max_norm = 0.0F;
};

inline constexpr int kNormBlocks = 1024;  // of the first kernel of grad_norm
struct GradNorm {
  const void* grad = nullptr;
  float* partial = nullptr;  // [kNormBlocks]
  float* norm = nullptr;
  int64_t count = 0;
};

struct Rotary {
  Packing packing;
  Matrix x, y;
  const int32_t* positions = nullptr;
  int32_t heads = 0;
  int32_t half = 0;   // channels of half a head
  int32_t lanes = 0;  // threads of a row
  double base_log2 = 0.0;
  bool backward = false;
  bool accumulate = false;
};

struct LowerBounds {
  Matrix x, y, d_y, d_x;
  int32_t layers = 0;
  int32_t width = 0;
  bool accumulate = false;
};

struct TokenShift {
  Packing packing;
  Matrix x, y, d_y, d_x;
  Matrix mix;              // [taps, width]
  Matrix initial, final;   // [sequences, width]
  float* d_mix = nullptr;  // partial [walks, taps, width]
  Tiling tiling;           // of rows; of walks and the channels of all mixtures; of sequences
  int32_t width = 0;
  int32_t taps = 0;
  int32_t walk = 0;  // rows
  bool accumulate = false;
  bool ends_sequences = false;  // every row is a sequence: its threads write its final state
};

/// The per-head parts of rwkv7, a team a head as in Norm.
struct Rwkv7 {
  Matrix in[5];
  Matrix out[3];  // backward: gradients of these
  Matrix d_in[5];
  const void* parameter[2] = {nullptr, nullptr};
  float* d_parameter[2] = {nullptr, nullptr};  // partial [partitions, heads, channels]
  uint32_t accumulate = 0;                     // bit i: d_in[i] is added to
  int32_t rows = 0;
  int32_t heads = 0;
  int32_t channels = 0;
  int32_t vectors = 0;
  int32_t team_log2 = 0;
  int32_t partitions = 0;  // backward: walkers over the rows of a head
  float eps = 0.0F;
};

/// Threads of the tiled kernels lie in a square of kTileEdge by kTileEdge.
inline constexpr int kTileEdge = 16;
inline constexpr int kMostHeadChannels = 256;

/// Channels of a head, rounded up to a size that has kernels.
inline int attention_channels(int64_t channels) {
  return channels <= 64 ? 64 : channels <= 128 ? 128 : kMostHeadChannels;
}
/// Queries, and keys, of a tile; wide heads have smaller tiles.
constexpr int attention_tile(int channels) {
  return channels <= 128 ? 64 : 32;
}

struct Attention {
  Packing packing;
  Matrix q, k, v, y, d_y, d_q, d_k, d_v;
  Matrix lse;                          // fp32 [rows, heads]
  Matrix k_cache, v_cache;             // [sequences, cache_length * channels of k]
  const int32_t* positions = nullptr;  // [sequences], with caches
  float* dot = nullptr;                // backward: [rows, heads] sum of d_y y
  int32_t heads = 0;
  int32_t group = 1;     // heads that share a head of k and v
  int32_t channels = 0;  // of a head
  int32_t window = 0;    // 0: all
  int32_t cache_length = 0;
  float scale = 1.0F;
  bool add_q = false;
  bool add_k = false;
  bool add_v = false;
};

}  // namespace fla::cuda::modules
