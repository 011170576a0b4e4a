// SPDX-License-Identifier: MIT
// Products through OpenBLAS, a tile of the result at a time.
#include "cpu/product.h"

#include <algorithm>

#include <cblas.h>
#include <omp.h>

#include "cpu/flush_subnormals.h"

namespace fla::cpu {
namespace {

// OpenBLAS's own threads would cut a product differently at each number of them, and with that the
// order of its sums. These tiles are always the same, and each is one thread's call.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 256;
// A smaller product is done before a second thread wakes up.
constexpr int64_t kMultiplications = int64_t{1} << 18;

CBLAS_TRANSPOSE transpose_of(const Factor& factor) {
  return factor.transposed ? CblasTrans : CblasNoTrans;
}

void multiply(int threads, const ProductShape& shape, const Factor& a, const Factor& b, float beta,
              float* c, int64_t stride) {
  const int64_t tile_rows = (shape.m + kTileRows - 1) / kTileRows;
  const int64_t tile_columns = (shape.n + kTileColumns - 1) / kTileColumns;
  const int64_t tiles = tile_rows * tile_columns;
  const int64_t useful = 1 + shape.m * shape.n * shape.k / kMultiplications;
  const int team = static_cast<int>(std::min({int64_t{threads}, tiles, useful}));
#pragma omp parallel num_threads(team)
  {
    const FlushSubnormals mode;
    omp_set_num_threads(1);  // of this thread until the region ends: OpenBLAS starts none
#pragma omp for schedule(dynamic, 1)
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t row = tile / tile_columns * kTileRows;
      const int64_t column = tile % tile_columns * kTileColumns;
      cblas_sgemm(CblasRowMajor, transpose_of(a), transpose_of(b),
                  static_cast<blasint>(std::min(kTileRows, shape.m - row)),
                  static_cast<blasint>(std::min(kTileColumns, shape.n - column)),
                  static_cast<blasint>(shape.k), 1.0F, a.data + row * (a.transposed ? 1 : a.stride),
                  static_cast<blasint>(a.stride), b.data + column * (b.transposed ? b.stride : 1),
                  static_cast<blasint>(b.stride), beta, c + row * stride + column,
                  static_cast<blasint>(stride));
    }
  }
}

}  // namespace

Product find_product() {
  return multiply;
}

}  // namespace fla::cpu
