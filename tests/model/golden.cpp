// SPDX-License-Identifier: MIT
// Reading the golden models, running them, comparing.
#include "model/golden.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "model/data/tokens.h"
#include "model/generator.h"
#include "model/scorer.h"

namespace fla::model {
namespace {

constexpr int64_t kPrompt = 70;

std::string golden_folder() {
  const char* data = std::getenv("FLA_TEST_DATA");
  return std::string(data != nullptr ? data : FLA_TEST_DATA_DIR) + "/golden";
}

template <class T>
std::vector<T> values_of(const Golden& golden, const std::string& name, DType dtype) {
  const TensorEntry* entry = golden.io.find(name);
  if (entry == nullptr || entry->dtype != dtype) {
    ADD_FAILURE() << golden.folder << "/io.safetensors has no " << name << " of "
                  << dtype_name(dtype);
    return {};
  }
  int64_t count = 1;
  for (int64_t size : entry->shape)
    count *= size;
  std::vector<T> values(static_cast<size_t>(count));
  std::memcpy(values.data(), entry->data, values.size() * sizeof(T));
  return values;
}

double norm_of(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values)
    sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// |a - b| / |b| over all elements; infinite for different sizes.
double relative_distance(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || b.empty())
    return std::numeric_limits<double>::infinity();
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i)
    error += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(error) / norm_of(b);
}

/// Rows `first`, `first` + `step`, ... of `width` columns.
template <class T>
std::vector<T> rows_of(const std::vector<T>& matrix, size_t width, size_t first, size_t step) {
  std::vector<T> rows;
  for (size_t at = first * width; at < matrix.size(); at += step * width)
    rows.insert(rows.end(), matrix.begin() + static_cast<std::ptrdiff_t>(at),
                matrix.begin() + static_cast<std::ptrdiff_t>(at + width));
  return rows;
}

std::vector<int32_t> argmax_of_rows(const std::vector<float>& logits, size_t width) {
  std::vector<int32_t> best;
  for (auto row = logits.begin(); row != logits.end(); row += static_cast<std::ptrdiff_t>(width))
    best.push_back(static_cast<int32_t>(
        std::max_element(row, row + static_cast<std::ptrdiff_t>(width)) - row));
  return best;
}

}  // namespace

std::string missing_golden_models() {
  const std::string folder = golden_folder();
  return std::filesystem::is_directory(folder)
             ? ""
             : folder + " is missing; tools/golden/export.py writes it";
}

Result<Golden> Golden::open(const std::string& family) {
  const std::string folder = golden_folder() + "/" + family;
  std::ifstream file(folder + "/config.json", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Result<Config> config = Config::parse(text, folder + "/config.json");
  if (!config.ok())
    return config.status();
  if (Status status = config.value().check(); !status.ok())
    return status;
  Result<Checkpoint> io = Checkpoint::open(folder + "/io.safetensors");
  if (!io.ok())
    return io.status();
  return Golden{folder, std::move(config.value()), std::move(io.value())};
}

std::vector<float> Golden::floats(const std::string& name) const {
  return values_of<float>(*this, name, DType::kFp32);
}

std::vector<int32_t> Golden::integers(const std::string& name) const {
  return values_of<int32_t>(*this, name, DType::kInt32);
}

GoldenCall golden_call(const Golden& golden, const std::string& group, DType dtype) {
  GoldenCall call;
  const TensorEntry* tokens = golden.io.find(group + ".tokens");
  call.batch.tokens = golden.integers(group + ".tokens");
  if (tokens == nullptr || tokens->shape.size() != 2)
    return call;
  call.shape = {.batch = tokens->shape[0], .length = tokens->shape[1], .dtype = dtype};
  if (group == "packed") {
    call.batch.cu_seqlens = golden.integers("packed.cu_seqlens");
    call.shape.sequences = static_cast<int64_t>(call.batch.cu_seqlens.size()) - 1;
  }
  call.batch.labels.resize(call.batch.tokens.size());
  EXPECT_TRUE(next_token_labels(call.batch.tokens, call.shape.length, call.batch.labels).ok());
  return call;
}

Result<GoldenAnswers> golden_answers(const Golden& golden, const GoldenCall& call,
                                     const Context& context) {
  const auto scorer = Scorer::create(golden.config, call.shape, context);
  if (!scorer.ok())
    return scorer.status();
  if (Status status = scorer.value()->load(golden.folder); !status.ok())
    return status;
  Result<std::vector<float>> logits = scorer.value()->score(call.batch);
  if (!logits.ok())
    return logits.status();
  TrainOptions options;
  options.shape = call.shape;
  const auto trainer = Trainer::create(golden.config, options, context);
  if (!trainer.ok())
    return trainer.status();
  Status status = trainer.value()->load(golden.folder);
  if (status.ok())
    status = trainer.value()->backward(call.batch);
  if (!status.ok())
    return status;
  const Result<float> loss = trainer.value()->loss();
  if (!loss.ok())
    return loss.status();
  GoldenAnswers answers = {std::move(logits.value()), loss.value(), {}};
  for (const ParameterInfo& parameter : trainer.value()->graph().parameters) {
    const Result<std::vector<float>> gradient = trainer.value()->read(parameter.name, true);
    if (!gradient.ok())
      return gradient.status();
    answers.gradient_norms[parameter.name] = norm_of(gradient.value());
  }
  return answers;
}

void expect_golden(const Golden& golden, const std::string& group, const GoldenAnswers& answers,
                   const test::GoldenLimits& limits) {
  EXPECT_LE(relative_distance(answers.logits, golden.floats(group + ".logits")), limits.logits);
  const std::vector<float> loss = golden.floats(group + ".loss");
  ASSERT_EQ(loss.size(), 1U);
  EXPECT_NEAR(answers.loss, loss[0], limits.loss);
  for (const auto& [name, norm] : answers.gradient_norms) {
    const std::vector<float> expected = golden.floats(group + ".grad_norm." + name);
    ASSERT_EQ(expected.size(), 1U);
    EXPECT_NEAR(norm / static_cast<double>(expected[0]), 1.0, limits.gradient_norm) << name;
  }
}

void expect_golden_decoding(const Golden& golden, const Context& context,
                            const test::GoldenLimits& limits) {
  const GoldenCall dense = golden_call(golden, "dense", DType::kFp32);
  const std::vector<int32_t> tokens = golden.integers("greedy.tokens");  // [batch, steps]
  const std::vector<float> logits = golden.floats("greedy.logits");      // [batch, steps, vocab]
  const auto batch = static_cast<size_t>(dense.shape.batch);
  const size_t steps = tokens.size() / batch;
  std::vector<int32_t> prompts;
  for (int64_t row = 0; row < dense.shape.batch; ++row) {
    const auto first = dense.batch.tokens.begin() + row * dense.shape.length;
    prompts.insert(prompts.end(), first, first + kPrompt);
  }
  const auto generator = Generator::create(golden.config,
                                           {.batch = dense.shape.batch,
                                            .prompt_length = kPrompt,
                                            .max_length = kPrompt + static_cast<int64_t>(steps)},
                                           context);
  ASSERT_TRUE(generator.ok()) << generator.status().message();
  ASSERT_TRUE(generator.value()->load(golden.folder).ok());
  const auto vocab = static_cast<size_t>(generator.value()->vocab_size());
  Result<std::vector<float>> row = generator.value()->prefill(prompts);
  for (size_t step = 0; step < steps; ++step) {
    ASSERT_TRUE(row.ok()) << row.status().message();
    EXPECT_LE(relative_distance(row.value(), rows_of(logits, vocab, step, steps)), limits.logits)
        << "step " << step;
    const std::vector<int32_t> next = argmax_of_rows(row.value(), vocab);
    ASSERT_EQ(next, rows_of(tokens, 1, step, steps)) << "step " << step;
    if (step + 1 < steps)
      row = generator.value()->decode(next);
  }
}

}  // namespace fla::model
