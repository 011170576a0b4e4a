// SPDX-License-Identifier: MIT
// How a profile was collected, as it is kept beside the reports (fla.collection/1).
#include "perf/ncu/collection.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fla::perf::ncu {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "fla.collection/1";

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
std::optional<T> optional_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? std::nullopt : std::optional<T>(found->get<T>());
}

/// Throws what nlohmann throws for a missing key or a wrong type.
Collection parse(const Json& json) {
  Collection c;
  c.tag = json.at("tag");
  c.side = json.at("side");
  c.created = json.at("created");
  c.kernel = json.at("kernel");
  c.workload = json.at("workload").get<std::vector<std::string>>();
  c.ncu_version = json.at("ncu_version");
  c.has_source_set = optional_at<bool>(json, "has_source_set");
  c.clock_control = json.at("clock_control");
  c.letter = json.at("letter");
  c.commands = json.at("commands").get<std::vector<std::vector<std::string>>>();
  for (const Json& one : json.at("deviations")) {
    c.deviations.push_back({one.at("what"), one.at("why")});
  }
  c.warnings = json.at("warnings").get<std::vector<std::string>>();
  const Json& launch = json.at("launch");
  c.choice = {.index = launch.at("index"),
              .of = launch.at("of"),
              .share = launch.at("share"),
              .reason = launch.at("reason")};
  c.matched = json.at("matched").get<std::vector<std::string>>();
  const Json& model = json.at("model");
  c.model = {.min_bytes = optional_at<double>(model, "min_bytes"),
             .flops = optional_at<double>(model, "flops"),
             .matrix_products = model.at("matrix_products"),
             .dtype = model.at("dtype")};
  for (const Json& one : json.at("reports")) {
    c.reports.push_back({one.at("path"), one.at("sha256"), one.at("bytes")});
  }
  return c;
}

}  // namespace

std::string to_json(const Collection& c) {
  Json json = {{"schema", kSchema},
               {"tag", c.tag},
               {"side", c.side},
               {"created", c.created},
               {"kernel", c.kernel},
               {"workload", c.workload},
               {"ncu_version", c.ncu_version},
               {"has_source_set", or_null(c.has_source_set)},
               {"clock_control", c.clock_control},
               {"letter", c.letter},
               {"commands", c.commands}};
  json["deviations"] = Json::array();
  for (const Deviation& one : c.deviations) {
    json["deviations"].push_back({{"what", one.what}, {"why", one.why}});
  }
  json["warnings"] = c.warnings;
  json["launch"] = {{"index", c.choice.index},
                    {"of", c.choice.of},
                    {"share", c.choice.share},
                    {"reason", c.choice.reason}};
  json["matched"] = c.matched;
  json["model"] = {{"min_bytes", or_null(c.model.min_bytes)},
                   {"flops", or_null(c.model.flops)},
                   {"matrix_products", c.model.matrix_products},
                   {"dtype", c.model.dtype}};
  json["reports"] = Json::array();
  for (const CollectedReport& one : c.reports) {
    json["reports"].push_back({{"path", one.path}, {"sha256", one.sha256}, {"bytes", one.bytes}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Collection> read_collection(std::string_view file, std::string_view text) {
  const auto bad = [&](std::string_view what) {
    return Status(Code::kIo, fmt::format("{}: {}", file, what));
  };
  const Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("schema") || !json["schema"].is_string()) {
    return bad("not a JSON object with a schema");
  }
  if (json["schema"].get<std::string>() != kSchema) {
    return bad(fmt::format("schema '{}', this fla reads {}",
                           json["schema"].get<std::string>().substr(0, 40), kSchema));
  }
  try {
    return parse(json);
  } catch (const nlohmann::json::exception& error) {
    return bad(error.what());
  }
}

}  // namespace fla::perf::ncu
