// SPDX-License-Identifier: MIT
// Golden models: tests/data/golden, written by tools/golden/export.py, and what the engine makes of
// them. The folder tests/data may lie elsewhere: environment variable FLA_TEST_DATA.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fla/plan.h"
#include "fla/status.h"
#include "model/builder.h"
#include "model/config.h"
#include "model/io/safetensors.h"
#include "model/trainer.h"
#include "support/tolerance.h"

namespace fla::model {

/// A model and its expected values.
struct Golden {
  std::string folder;
  Config config;
  Checkpoint io;

  static Result<Golden> open(const std::string& family);
  /// Empty, and a failed test, where the file has no such tensor.
  std::vector<float> floats(const std::string& name) const;
  std::vector<int32_t> integers(const std::string& name) const;
};

/// Tokens to score or to train on: group "dense" or "packed".
struct GoldenCall {
  CallShape shape;
  Batch batch;
};
GoldenCall golden_call(const Golden& golden, const std::string& group, DType dtype);

/// Why there are no golden models here; "" when there are.
std::string missing_golden_models();

/// What the engine gives, under the names of the expected values.
struct GoldenAnswers {
  std::vector<float> logits;
  float loss = 0;
  std::map<std::string, double> gradient_norms;
};
Result<GoldenAnswers> golden_answers(const Golden& golden, const GoldenCall& call,
                                     const Context& context);

/// Compares with the values whose names start with `group`: "dense", "fla.packed".
void expect_golden(const Golden& golden, const std::string& group, const GoldenAnswers& answers,
                   const test::GoldenLimits& limits);

/// Greedy decoding after the golden prompt, in fp32: the same tokens and close logits.
void expect_golden_decoding(const Golden& golden, const Context& context,
                            const test::GoldenLimits& limits);

}  // namespace fla::model

#define FLA_SKIP_WITHOUT_GOLDEN_MODELS()                                           \
  if (const std::string why = ::fla::model::missing_golden_models(); !why.empty()) \
  GTEST_SKIP() << why
