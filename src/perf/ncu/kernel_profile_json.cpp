// SPDX-License-Identifier: MIT
// fla.profile/1 and fla.hotspots/1.
#include <nlohmann/json.hpp>

#include "perf/json_value.h"
#include "perf/ncu/kernel_profile.h"

namespace fla::perf::ncu {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json launch_json(const KernelProfile& p) {
  const auto value = [&](std::string_view key) { return or_null(p.metrics.value(key)); };
  Json json = {{"index", p.collection ? Json(p.collection->choice.index) : Json(nullptr)},
               {"of", p.collection ? Json(p.collection->choice.of) : Json(nullptr)},
               {"config_share", p.collection ? Json(p.collection->choice.share) : Json(nullptr)},
               {"grid", p.grid},
               {"block", p.block},
               {"regs", value("regs")},
               {"smem_bytes", value("smem")},
               {"cluster", value("cluster")}};
  json["occupancy_limiter"] = p.limiter.resources;
  json["persistent"] = is_persistent(p.metrics);
  return json;
}

Json collection_json(const KernelProfile& p) {
  if (!p.collection) {
    return nullptr;
  }
  const Collection& c = *p.collection;
  Json deviations = Json::array();
  for (const Deviation& one : c.deviations) {
    deviations.push_back({{"what", one.what}, {"why", one.why}});
  }
  return {
      {"ncu_version", or_null(c.ncu_version)}, {"argv", c.commands},
      {"deviations", std::move(deviations)},   {"set_source_present", or_null(c.has_source_set)},
      {"clock_control", c.clock_control},      {"letter", c.letter}};
}

Json reports_json(const KernelProfile& p) {
  Json json = Json::array();
  if (p.collection) {
    for (const CollectedReport& one : p.collection->reports) {
      json.push_back({{"path", one.path}, {"sha256", one.sha256}, {"bytes", one.bytes}});
    }
  }
  return json;
}

/// A metric that is missing stays in the table: null, with what was looked for.
Json metrics_json(const Metrics& metrics) {
  Json json = Json::object();
  for (const std::string& key : metric_keys()) {
    if (const auto found = metrics.found.find(key); found != metrics.found.end()) {
      const Resolved& one = found->second;
      json[key] = {{"value", one.value},
                   {"unit", one.unit},
                   {"name_used", one.name_used},
                   {"candidates_missing", one.missing},
                   {"flags", one.flags}};
    } else if (const auto missing = metrics.missing.find(key); missing != metrics.missing.end()) {
      json[key] = {{"value", nullptr},
                   {"unit", nullptr},
                   {"name_used", nullptr},
                   {"candidates_missing", missing->second.candidates},
                   {"suggestions", missing->second.suggestions}};
    }
  }
  return json;
}

Json stalls_json(const std::vector<Stall>& stalls) {
  Json json = Json::object();
  for (const Stall& one : stalls) {
    json[one.reason] = {{"value", one.value}, {"share", one.share}};
  }
  return json;
}

Json hotspot_list(const std::vector<Hotspot>& spots) {
  Json json = Json::array();
  for (const Hotspot& one : spots) {
    json.push_back({{"addr", or_null(one.address)},
                    {"sass", one.text},
                    {"samples", one.samples},
                    {"share", one.share},
                    {"top_reason", one.reasons.empty() ? Json(nullptr) : Json(one.reasons[0])},
                    {"reasons", one.reasons},
                    {"executed", one.executed},
                    {"file", or_null(one.file)},
                    {"line", one.line > 0 ? Json(one.line) : Json(nullptr)}});
  }
  return json;
}

Json rules_json(const KernelProfile& p) {
  Json json = Json::array();
  for (const RuleHint& one : p.hints) {
    json.push_back({{"id", one.rule},
                    {"section", one.section},
                    {"type", one.type},
                    {"text", one.text},
                    {"kind", or_null(one.speedup_type)},
                    {"est_speedup_pct", or_null(one.speedup_pct)},
                    {"overruled_by", or_null(overrule_hint(one, p.metrics))}});
  }
  return json;
}

Json timeline_json(const Timeline& timeline) {
  Json series = Json::array();
  for (const Series& one : timeline.series) {
    series.push_back({{"name", one.name}, {"unit", one.unit}, {"values", one.values}});
  }
  return {{"series", std::move(series)},
          {"samples_in_kernel", timeline.samples_in_kernel},
          {"interval_s", or_null(timeline.interval_s)},
          {"reason", or_null(timeline.reason)}};
}

Json roofline_json(const Roofline& r) {
  return {{"flops_per_s", or_null(r.flops_per_s)},
          {"flops_per_byte", or_null(r.flops_per_byte)},
          {"peak_flops_per_s", or_null(r.peak_flops_per_s)},
          {"peak_bytes_per_s", or_null(r.peak_bytes_per_s)},
          {"attainable_flops_per_s", or_null(r.attainable())},
          {"unit", r.unit},
          {"estimated", r.estimated},
          {"reason", or_null(r.reason)}};
}

Json diagnoses_json(const std::vector<Finding>& findings) {
  Json json = Json::array();
  for (const Finding& one : findings) {
    Json evidence = Json::array();
    for (const Number& number : one.numbers) {
      evidence.push_back({{"name", number.name}, {"value", number.value}, {"unit", number.unit}});
    }
    json.push_back({{"id", one.id},
                    {"title", one.title},
                    {"severity", severity_name(one.severity)},
                    {"text", one.text},
                    {"evidence", std::move(evidence)},
                    {"overruled_by", or_null(one.overruled_by)}});
  }
  return json;
}

}  // namespace

std::string to_json(const KernelProfile& p) {
  return dump({{"schema", "fla.profile/1"},
               {"tag", p.tag},
               {"side", p.collection ? or_null(p.collection->side) : Json(nullptr)},
               {"kernel", {{"name", p.kernel}, {"base", base_name(p.kernel)}}},
               {"device", or_null(p.device)},
               {"compute_capability", or_null(p.compute_capability)},
               {"launch", launch_json(p)},
               {"collection", collection_json(p)},
               {"reports", reports_json(p)},
               {"metrics", metrics_json(p.metrics)},
               {"stalls",
                {{"aggregate", stalls_json(p.stalls.aggregate)},
                 {"sampled", stalls_json(p.stalls.sampled)}}},
               {"samples", p.hotspots.total_samples},
               {"few_samples", p.hotspots.few_samples},
               {"hotspots", hotspot_list(p.hotspots.instructions)},
               {"hot_lines", hotspot_list(p.hotspots.lines)},
               {"rules", rules_json(p)},
               {"timeline", timeline_json(p.timeline)},
               {"roofline", roofline_json(p.roofline)},
               {"diagnoses", diagnoses_json(p.findings)},
               {"gaps", p.gaps}});
}

std::string hotspots_json(const KernelProfile& p) {
  return dump({{"schema", "fla.hotspots/1"},
               {"kernel", p.kernel},
               {"samples", p.hotspots.total_samples},
               {"instructions", hotspot_list(p.hotspots.instructions)},
               {"lines", hotspot_list(p.hotspots.lines)}});
}

}  // namespace fla::perf::ncu
