// SPDX-License-Identifier: MIT
// Generator: a model that writes: the prompt in chunks, then one token a sequence and step from
// kept states.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/runtime/stream.h"
#include "fla/plan.h"
#include "fla/status.h"
#include "model/config.h"
#include "model/memory.h"
#include "model/program.h"

namespace fla::model {

struct GenerateOptions {
  int64_t batch = 1;
  int64_t prompt_length = 0;  // of every sequence
  int64_t max_length = 0;     // prompt and new tokens together: the room of attention's caches
  DType dtype = DType::kFp32;
  bool cuda_graph = true;  // on a GPU: a decode step as one launch
};

class Generator {
 public:
  /// Plans and allocates. Errors: kInvalidArgument, kUnsupported, kCuda out of memory.
  static Result<std::unique_ptr<Generator>> create(const Config& config,
                                                   const GenerateOptions& options,
                                                   const Context& context);

  Status initialize(uint64_t seed);
  Status load(const std::string& folder);

  /// Reads prompts [batch, prompt_length], whatever came before; logits [batch, vocab_size] of
  /// their last tokens.
  Result<std::vector<float>> prefill(std::span<const int32_t> tokens);
  /// Reads one token a sequence; logits of what follows. Errors: kInvalidArgument past max_length.
  Result<std::vector<float>> decode(std::span<const int32_t> tokens);

  int64_t vocab_size() const { return config_.integer("vocab_size"); }
  int64_t num_parameters() const { return prefill_->graph().num_parameters(); }
  /// Of all sequences: recurrent states, convolution tails, key-value caches.
  int64_t state_bytes() const;
  int64_t total_bytes() const;
  /// What a decode step must read: parameters but for the embedding's other rows, states twice.
  int64_t decode_bytes() const;

 private:
  Generator(Config config, const GenerateOptions& options, const Context& context);
  Status plan();
  Status allocate();
  Status upload(std::string_view name, std::span<const int32_t> values);
  Result<std::vector<float>> read_logits() const;
  Stream stream() const;

  Config config_;
  GenerateOptions options_;
  Context context_;
  std::optional<cuda::OwnedStream> stream_;
  std::optional<Program> prefill_;
  std::optional<Program> decode_;
  Layout layout_;
  Arena arena_;
  std::optional<cuda::GraphExec> graph_;
  int64_t length_ = 0;  // tokens that the states have seen
  bool has_decoded_ = false;
};

}  // namespace fla::model
