// SPDX-License-Identifier: MIT
// Config: the hyperparameters of a model, read from and written to a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "fla/status.h"

namespace fla::model {

struct Null {
  bool operator==(const Null&) const = default;
};

/// A list or an object, as JSON text.
struct Json {
  std::string text;
  bool operator==(const Json&) const = default;
};

using Value = std::variant<Null, bool, int64_t, double, std::string, Json>;

/// A layer that uses softmax attention in place of the family's mixer (key "attn" of a hybrid).
struct AttentionLayers {
  std::vector<int64_t> layers;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t window_size = 0;  // 0: none
  double rope_theta = 10000.0;
  bool qkv_bias = false;
};

struct Family;

class Config {
 public:
  /// The family's defaults. Errors: kInvalidArgument for an unknown family, with the nearest ones.
  static Result<Config> of(std::string_view family);
  /// A config.json. Keys that it lacks take the defaults. Errors: kInvalidArgument naming `where`
  /// and every key that the family does not know, with the nearest ones, and every value of a wrong
  /// type; kIo for what is no JSON.
  static Result<Config> parse(std::string_view text, std::string_view where);

  /// Sets a key as --config KEY=VALUE does. Errors as parse.
  Status set_text(std::string_view key, std::string_view text);
  void set(std::string_view key, Value value);
  /// The keys of the family and what else the file held, two spaces deep.
  std::string to_json() const;

  const Family& family() const { return *family_; }
  bool knows(std::string_view key) const { return values_.contains(std::string(key)); }
  bool is_null(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  /// `fallback` for null.
  int64_t integer_or(std::string_view key, int64_t fallback) const;
  double number(std::string_view key) const;
  bool flag(std::string_view key) const;
  const std::string& text(std::string_view key) const;

  /// The hybrid layers of key "attn"; check() has seen that they are well formed.
  const std::vector<AttentionLayers>& attention() const { return attention_; }
  /// The spec that lists `layer`, or null.
  const AttentionLayers* attention_of(int64_t layer) const;

  /// What no single value shows: sizes that do not divide, layers out of range. Errors:
  /// kInvalidArgument.
  Status check();

 private:
  const Value& at(std::string_view key) const;
  Status read_attention();

  const Family* family_ = nullptr;
  std::map<std::string, Value> values_;
  std::vector<std::pair<std::string, std::string>> kept_;  // keys of the file format, as JSON text
  std::vector<AttentionLayers> attention_;
};

}  // namespace fla::model
