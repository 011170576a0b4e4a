// SPDX-License-Identifier: MIT
// Scorer: a model's logits of every token, for tests.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda/runtime/stream.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "model/builder.h"
#include "model/config.h"
#include "model/memory.h"
#include "model/program.h"
#include "model/trainer.h"

namespace fla::model {

class Scorer {
 public:
  /// fp32 or bf16, dense or packed; the mode is kScore whatever `shape` says.
  static Result<std::unique_ptr<Scorer>> create(const Config& config, const CallShape& shape,
                                                const Context& context);

  Status load(const std::string& folder);
  /// Logits [tokens, vocab_size].
  Result<std::vector<float>> score(const Batch& batch) const;

 private:
  Scorer(const CallShape& shape, const Context& context);
  Status plan(const Config& config);
  Status allocate();
  Status upload(Tensor tensor, const std::vector<int32_t>& values) const;
  Stream stream() const;

  CallShape shape_;
  Context context_;
  std::optional<cuda::OwnedStream> stream_;
  std::optional<Program> program_;
  Layout layout_;
  Arena arena_;
};

}  // namespace fla::model
