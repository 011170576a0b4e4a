// SPDX-License-Identifier: MIT
// Plan of embedding.
#include <algorithm>
#include <utility>

#include "cuda/modules/kernels.h"
#include "cuda/modules/module.h"

namespace fla::cuda::modules {
namespace {

using S = slot::Embedding;

class EmbeddingModule final : public CudaModule {
 public:
  using CudaModule::CudaModule;

  Status prepare() override {
    const DType dtype = desc().dtype;
    return load({embedding_kernel(dtype, false), embedding_kernel(dtype, true),
                 embedding_pairs_kernel(), sort_tile_kernel(), sort_merge_kernel(),
                 embedding_pieces_kernel(dtype), embedding_runs_kernel(dtype)});
  }

  size_t workspace_bytes(Pass pass) const override {
    Scratch scratch(nullptr);
    if (pass == Pass::kBackward) {
      scratch.take<uint64_t>(padded());
      scratch.take<float>(2 * pieces() * desc().width);
    }
    return scratch.bytes();
  }

 protected:
  Status forward(const ModuleTensors& t, Workspace /*workspace*/, Stream stream) const override {
    Embedding p = describe(t);
    p.y = matrix_of(t.out[S::y]);
    p.table = t.in[S::table].data;
    p.table_row = matrix_of(t.in[S::table]).row;
    const bool vectors = in_vectors({p.y, matrix_of(t.in[S::table])}, {desc().width});
    p.tiling = make_tiling(desc().rows, vectors ? desc().width / vector() : desc().width);
    return launch(embedding_kernel(desc().dtype, vectors), tiling_blocks(p.tiling), &p, stream);
  }

  Status backward(const ModuleTensors& t, Workspace workspace, Stream stream) const override {
    const TensorView& d_table = t.d_in[S::table];
    if (d_table.data == nullptr)
      return {};
    Scratch scratch(workspace.data);
    Embedding p = describe(t);
    p.y = matrix_of(t.d_out[S::y]);
    p.d_table = d_table.data;
    p.table_row = matrix_of(d_table).row;
    p.accumulate = adds(t, S::table);
    p.pairs = scratch.take<uint64_t>(padded());
    p.partial = scratch.take<float>(2 * pieces() * desc().width);
    Status status = p.accumulate ? Status() : clear(d_table, stream);
    if (!status.ok() || desc().rows == 0)
      return status;
    status = launch(embedding_pairs_kernel(), vectors_of(padded(), kThreads), &p, stream);
    if (status.ok())
      status = sort(p.pairs, stream);
    const int64_t blocks = pieces() * p.column_blocks;
    if (status.ok())
      status = launch(embedding_pieces_kernel(desc().dtype), blocks, &p, stream);
    return status.ok() ? launch(embedding_runs_kernel(desc().dtype), blocks, &p, stream) : status;
  }

 private:
  int64_t padded() const {
    return std::max<int64_t>(kSortTile, int64_t{1} << log2_up(desc().rows));
  }
  int64_t pieces() const { return vectors_of(desc().rows, kEmbeddingPiece); }

  Embedding describe(const ModuleTensors& t) const {
    Embedding p;
    p.ids = static_cast<const int32_t*>(t.in[S::ids].data);
    p.rows = static_cast<int32_t>(desc().rows);
    p.padded = static_cast<int32_t>(padded());
    p.width = static_cast<int32_t>(desc().width);
    p.vocabulary = static_cast<int32_t>(desc().out);
    p.column_blocks = static_cast<int32_t>(vectors_of(desc().width, kThreads));
    return p;
  }

  /// A bitonic sort: runs up to a tile in one launch, then each longer run by its steps.
  Status sort(uint64_t* pairs, Stream stream) const {
    const int64_t tiles = padded() / kSortTile;
    SortStep step{pairs, static_cast<int32_t>(padded()), 0, 0};
    Status status = launch(sort_tile_kernel(), tiles, &step, stream);
    for (int64_t run = 2 * kSortTile; run <= padded() && status.ok(); run *= 2) {
      step.run = static_cast<int32_t>(run);
      for (int64_t stride = run / 2; stride >= kSortTile && status.ok(); stride /= 2) {
        step.stride = static_cast<int32_t>(stride);
        status = launch(sort_merge_kernel(), vectors_of(padded() / 2, kSortThreads), &step, stream);
      }
      if (status.ok())
        status = launch(sort_tile_kernel(), tiles, &step, stream);
    }
    return status;
  }
};

}  // namespace

Made make_embedding(const ModuleDesc& desc, std::string call, int device) {
  return std::make_unique<EmbeddingModule>(desc, std::move(call), device);
}

}  // namespace fla::cuda::modules
