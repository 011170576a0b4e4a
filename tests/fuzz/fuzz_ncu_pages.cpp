// SPDX-License-Identifier: MIT
// Fuzzes the readers of Nsight Compute's pages, of the record beside them and of an earlier report:
// any text is refused with a place, or everything that follows from it can be computed and is
// finite.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "perf/ncu/census.h"
#include "perf/ncu/collection.h"
#include "perf/ncu/details_page.h"
#include "perf/ncu/diagnosis.h"
#include "perf/ncu/hotspots.h"
#include "perf/ncu/log.h"
#include "perf/ncu/raw_page.h"
#include "perf/ncu/roofline.h"
#include "perf/ncu/source_page.h"
#include "perf/ncu/timeline.h"
#include "perf/report/document.h"

namespace fla::perf::ncu {
namespace {

void require(bool condition) {
  if (!condition) {
    __builtin_trap();
  }
}

template <class T>
bool usable(const Result<T>& result) {
  require(result.ok() || result.status().message().starts_with("f:"));
  return result.ok();
}

void read_launch(const Launch& launch) {
  const Metrics metrics = resolve_metrics(launch);
  for (const auto& [key, metric] : metrics.found) {
    require(std::isfinite(metric.value));
  }
  const Timeline timeline = read_timeline(launch);
  require(!timeline_text(timeline).empty());
  read_roofline(launch, metrics);
  for (const Finding& finding : diagnose({.metrics = metrics,
                                .stalls = read_stalls(launch),
                                .timeline = timeline,
                                .model = {}})) {
    require(!finding.numbers.empty() && !finding.text.empty());
  }
}

/// A report that is written again holds the same texts of people.
void keep_what_people_wrote(std::string_view text) {
  const report::HumanTexts written = report::read_human_texts(text);
  report::Document document;
  for (const auto& [name, body] : written) {
    document.blocks.push_back(report::Human{name, "more"});
  }
  require(report::read_human_texts(to_markdown(document, written)) == written);
}

void read_everything(std::string_view text) {
  const auto launches = parse_raw_page("f", text);
  if (usable(launches)) {
    for (const Launch& launch : launches.value()) {
      read_launch(launch);
    }
    take_census(launches.value());
  }
  const auto code = parse_source_page("f", text);
  if (usable(code)) {
    require(find_hotspots(code.value(), 5).instructions.size() <= 5);
  }
  usable(parse_details_page("f", text));
  judge_log(text);
  if (const auto collection = read_collection("f", text); usable(collection)) {
    require(read_collection("f", to_json(collection.value())).ok());
  }
  keep_what_people_wrote(text);
}

}  // namespace
}  // namespace fla::perf::ncu

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fla::perf::ncu::read_everything({reinterpret_cast<const char*>(data), size});
  return 0;
}
