// SPDX-License-Identifier: MIT
// Config: defaults, JSON, and what must hold between values.
#include "model/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "model/family.h"
#include "ops/messages.h"

namespace fla::model {
namespace {

using nlohmann::ordered_json;

// What every Hugging Face config.json may hold beside the family's own keys; kept as they are.
constexpr std::array<std::string_view, 26> kFormatKeys = {"architectures",
                                                          "auto_map",
                                                          "bad_words_ids",
                                                          "chunk_size_feed_forward",
                                                          "cross_attention_hidden_size",
                                                          "decoder_start_token_id",
                                                          "dtype",
                                                          "finetuning_task",
                                                          "forced_bos_token_id",
                                                          "forced_eos_token_id",
                                                          "gradient_checkpointing",
                                                          "id2label",
                                                          "is_decoder",
                                                          "is_encoder_decoder",
                                                          "label2id",
                                                          "model_type",
                                                          "name_or_path",
                                                          "_name_or_path",
                                                          "output_attentions",
                                                          "output_hidden_states",
                                                          "problem_type",
                                                          "return_dict",
                                                          "sep_token_id",
                                                          "torch_dtype",
                                                          "transformers_version",
                                                          "use_return_dict"};

std::string_view type_name(ValueType type) {
  switch (type) {
    case ValueType::kFlag:
      return "true or false";
    case ValueType::kInteger:
      return "an integer";
    case ValueType::kNumber:
      return "a number";
    case ValueType::kText:
      return "a text";
    case ValueType::kJson:
      break;
  }
  return "a list or an object";
}

const ConfigKey* find_key(const Family& family, std::string_view name) {
  for (const ConfigKey& key : family.keys) {
    if (key.name == name)
      return &key;
  }
  return nullptr;
}

std::vector<std::string_view> key_names(const Family& family) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : family.keys)
    names.push_back(key.name);
  return names;
}

std::string unknown_key(const Family& family, std::string_view key) {
  const std::vector<std::string_view> names = key_names(family);
  return fmt::format("{} has no key '{}'; {}", family.name, key, ops::did_you_mean(key, names));
}

/// The value, or nothing where it has another type.
std::optional<Value> value_of(const ordered_json& json, const ConfigKey& key) {
  if (json.is_null() && std::holds_alternative<Null>(key.value))
    return Null{};
  switch (key.type) {
    case ValueType::kFlag:
      if (json.is_boolean())
        return json.get<bool>();
      break;
    case ValueType::kInteger:
      if (json.is_number_integer())
        return json.get<int64_t>();
      break;
    case ValueType::kNumber:
      if (json.is_number())
        return json.get<double>();
      break;
    case ValueType::kText:
      if (json.is_string())
        return json.get<std::string>();
      break;
    case ValueType::kJson:
      if (json.is_structured())
        return Json{json.dump()};
      break;
  }
  return std::nullopt;
}

ordered_json json_of(const Value& value) {
  struct Visitor {
    ordered_json operator()(const Null&) const { return nullptr; }
    ordered_json operator()(bool v) const { return v; }
    ordered_json operator()(int64_t v) const { return v; }
    ordered_json operator()(double v) const { return v; }
    ordered_json operator()(const std::string& v) const { return v; }
    ordered_json operator()(const Json& v) const { return ordered_json::parse(v.text); }
  };
  return std::visit(Visitor{}, value);
}

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

/// Reads one dict of key "attn".
Status read_spec(const ordered_json& json, AttentionLayers* spec) {
  if (!json.is_object() || !json.contains("layers") || !json.contains("num_heads"))
    return invalid("attn: expected an object with layers and num_heads");
  const auto integer = [&](const char* key, int64_t fallback) -> std::optional<int64_t> {
    if (!json.contains(key) || json[key].is_null())
      return fallback;
    return json[key].is_number_integer() && json[key].get<int64_t>() > 0
               ? std::optional(json[key].get<int64_t>())
               : std::nullopt;
  };
  for (const ordered_json& layer : json["layers"]) {
    if (!layer.is_number_integer())
      return invalid(fmt::format("attn: layers holds {}, expected integers", layer.dump()));
    spec->layers.push_back(layer.get<int64_t>());
  }
  const std::optional<int64_t> num_heads = integer("num_heads", -1);
  if (!num_heads || *num_heads < 1)
    return invalid(fmt::format("attn: num_heads is {}, expected a positive integer",
                               json["num_heads"].dump()));
  const std::optional<int64_t> num_kv_heads = integer("num_kv_heads", *num_heads);
  const std::optional<int64_t> window_size = integer("window_size", 0);
  if (!num_kv_heads || !window_size)
    return invalid("attn: num_kv_heads and window_size must be positive integers or null");
  spec->num_heads = *num_heads;
  spec->num_kv_heads = *num_kv_heads;
  spec->window_size = *window_size;
  spec->rope_theta = json.value("rope_theta", 10000.0);
  spec->qkv_bias = json.value("qkv_bias", false);
  return {};
}

}  // namespace

Result<Config> Config::of(std::string_view name) {
  const Result<const Family*> family = find_family(name);
  if (!family.ok())
    return family.status();
  Config config;
  config.family_ = family.value();
  for (const ConfigKey& key : config.family_->keys)
    config.values_.emplace(key.name, key.value);
  return config;
}

Result<Config> Config::parse(std::string_view text, std::string_view where) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object())
    return Status(Code::kIo, fmt::format("{}: is no JSON object", where));
  if (!json.contains("model_type") || !json["model_type"].is_string())
    return invalid(fmt::format("{}: has no model_type", where));
  Result<Config> config = of(json["model_type"].get<std::string>());
  if (!config.ok())
    return invalid(fmt::format("{}: {}", where, config.status().message()));
  const Family& family = config.value().family();
  std::string wrong;
  for (const auto& [name, value] : json.items()) {
    const ConfigKey* key = find_key(family, name);
    if (key == nullptr) {
      if (std::find(kFormatKeys.begin(), kFormatKeys.end(), name) == kFormatKeys.end())
        wrong += fmt::format("\n{}: {}", where, unknown_key(family, name));
      else if (name != "model_type" && name != "architectures")
        config.value().kept_.emplace_back(name, value.dump());
      continue;
    }
    if (std::optional<Value> read = value_of(value, *key))
      config.value().values_[name] = std::move(*read);
    else
      wrong += fmt::format("\n{}: {} is {}, expected {}", where, name, value.dump(),
                           type_name(key->type));
  }
  if (!wrong.empty())
    return invalid(wrong.substr(1));
  Status status = config.value().check();
  if (!status.ok())
    return invalid(fmt::format("{}: {}", where, status.message()));
  return config;
}

Status Config::set_text(std::string_view name, std::string_view text) {
  const ConfigKey* key = find_key(*family_, name);
  if (key == nullptr)
    return invalid(unknown_key(*family_, name));
  const ordered_json json = key->type == ValueType::kText && text != "null"
                                ? ordered_json(std::string(text))
                                : ordered_json::parse(text, nullptr, false);
  std::optional<Value> value = json.is_discarded() ? std::nullopt : value_of(json, *key);
  if (!value)
    return invalid(fmt::format("{} is {}, expected {}", name, text, type_name(key->type)));
  values_[std::string(name)] = std::move(*value);
  return {};
}

void Config::set(std::string_view key, Value value) {
  values_.at(std::string(key)) = std::move(value);
}

std::string Config::to_json() const {
  ordered_json json;
  json["architectures"] = {std::string(family_->architecture)};
  json["model_type"] = std::string(family_->name);
  for (const ConfigKey& key : family_->keys)
    json[std::string(key.name)] = json_of(at(key.name));
  for (const auto& [name, text] : kept_)
    json[name] = ordered_json::parse(text);
  return json.dump(2) + "\n";
}

const Value& Config::at(std::string_view key) const {
  return values_.at(std::string(key));
}

bool Config::is_null(std::string_view key) const {
  return std::holds_alternative<Null>(at(key));
}

int64_t Config::integer(std::string_view key) const {
  return std::get<int64_t>(at(key));
}

int64_t Config::integer_or(std::string_view key, int64_t fallback) const {
  return is_null(key) ? fallback : integer(key);
}

double Config::number(std::string_view key) const {
  const Value& value = at(key);
  return std::holds_alternative<int64_t>(value) ? static_cast<double>(std::get<int64_t>(value))
                                                : std::get<double>(value);
}

bool Config::flag(std::string_view key) const {
  return std::get<bool>(at(key));
}

const std::string& Config::text(std::string_view key) const {
  return std::get<std::string>(at(key));
}

const AttentionLayers* Config::attention_of(int64_t layer) const {
  for (const AttentionLayers& spec : attention_) {
    if (std::find(spec.layers.begin(), spec.layers.end(), layer) != spec.layers.end())
      return &spec;
  }
  return nullptr;
}

Status Config::read_attention() {
  attention_.clear();
  if (!knows("attn") || is_null("attn"))
    return {};
  ordered_json specs = json_of(at("attn"));
  if (specs.is_object())
    specs = ordered_json::array({specs});
  const int64_t num_layers = integer("num_hidden_layers");
  const int64_t hidden_size = integer("hidden_size");
  std::set<int64_t> seen;
  for (const ordered_json& json : specs) {
    AttentionLayers spec;
    Status status = read_spec(json, &spec);
    if (!status.ok())
      return status;
    for (int64_t layer : spec.layers) {
      if (layer < 0 || layer >= num_layers)
        return invalid(fmt::format("attn: layer {} is not among 0 to {}", layer, num_layers - 1));
      if (!seen.insert(layer).second)
        return invalid(fmt::format("attn: layer {} is listed twice", layer));
    }
    if (hidden_size % spec.num_heads != 0 || hidden_size / spec.num_heads % 2 != 0 ||
        spec.num_heads % spec.num_kv_heads != 0) {
      return invalid(
          fmt::format("attn: num_heads is {} and num_kv_heads {}, expected heads of an even "
                      "size that divide hidden_size = {}, and groups of whole heads",
                      spec.num_heads, spec.num_kv_heads, hidden_size));
    }
    attention_.push_back(std::move(spec));
  }
  return {};
}

Status Config::check() {
  const auto at_least_one = [&](std::string_view key) -> Status {
    if (integer(key) >= 1)
      return {};
    return invalid(fmt::format("{} is {}, expected 1 or more", key, integer(key)));
  };
  for (std::string_view key : {"hidden_size", "num_hidden_layers", "vocab_size", "num_heads",
                               "head_dim", "intermediate_size", "conv_size", "hidden_ratio"}) {
    if (!knows(key) || is_null(key))
      continue;
    if (Status status = at_least_one(key); !status.ok())
      return status;
  }
  if (knows("hidden_act") && family_->name != "rwkv7" && text("hidden_act") != "swish" &&
      text("hidden_act") != "silu") {
    return invalid(
        fmt::format("hidden_act is {}, expected swish (no other is built)", text("hidden_act")));
  }
  if (knows("attnres_block_size") && !is_null("attnres_block_size"))
    return invalid("attnres_block_size is set, expected null (residual attention is not built)");
  if (Status status = read_attention(); !status.ok())
    return status;
  return family_->check == nullptr ? Status() : family_->check(*this);
}

}  // namespace fla::model
