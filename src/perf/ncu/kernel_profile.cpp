// SPDX-License-Identifier: MIT
// All that the reports of one kernel say, read and diagnosed.
#include "perf/ncu/kernel_profile.h"

#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "perf/host/files.h"
#include "perf/ncu/pages.h"
#include "perf/ncu/tool.h"
#include "perf/write_file.h"

namespace fla::perf::ncu {
namespace {

namespace fs = std::filesystem;

/// Reads one tag of a run.
class Reader {
 public:
  Reader(const AnalysisOptions& options, const std::string& tag) : options_(options) {
    profile_.tag = tag;
  }

  Result<KernelProfile> read() {
    for (Status (Reader::*step)() :
         {&Reader::read_record, &Reader::read_raw, &Reader::read_instances, &Reader::read_details,
          &Reader::read_code}) {
      if (Status status = (this->*step)(); !status.ok()) {
        return status;
      }
    }
    if (!has_raw_ && profile_.hotspots.total_samples == 0) {
      return Status(Code::kIo, fmt::format("{}: tag '{}' has neither a full nor a source report",
                                           options_.run_dir, profile_.tag));
    }
    profile_.findings =
        diagnose({.metrics = profile_.metrics,
                  .stalls = profile_.stalls,
                  .timeline = profile_.timeline,
                  .model = profile_.collection ? profile_.collection->model : WorkModel()});
    return std::move(profile_);
  }

 private:
  std::string path(const std::string& file) const { return options_.run_dir + "/" + file; }

  /// The text of a page, printed now if analysis/ lacks it; none, with a gap, where it cannot be
  /// had.
  Result<std::optional<std::string>> page(Page page, const char* report,
                                          const std::vector<std::string>& metrics = {}) {
    const std::string file = page_file(page, profile_.tag);
    if (fs::exists(path(file))) {
      Result<std::string> text = host::read_file(path(file));
      return text.ok() ? Result<std::optional<std::string>>(std::move(text.value()))
                       : Result<std::optional<std::string>>(text.status());
    }
    const std::string source = fmt::format("reports/{}_{}.ncu-rep", report, profile_.tag);
    if (options_.ncu.empty() || !fs::exists(path(source))) {
      profile_.gaps.push_back(fmt::format(
          "no {}: {}", file,
          options_.ncu.empty() ? "ncu is not here to print it" : "there is no " + source));
      return std::optional<std::string>();
    }
    const Result<std::string> text = print_with_any(path(source), page, metrics);
    if (!text.ok()) {
      profile_.gaps.push_back(fmt::format("no {}: {}", file, text.status().message()));
      return std::optional<std::string>();
    }
    if (Status status = write_file(path(file), text.value()); !status.ok()) {
      return status;
    }
    return std::optional(text.value());
  }

  /// By the profiler at hand, else by another that is installed: an older one may not read a
  /// report.
  Result<std::string> print_with_any(const std::string& report, Page page,
                                     const std::vector<std::string>& metrics) {
    Result<std::string> text = print_page(options_.ncu, report, page, metrics);
    if (text.ok()) {
      return text;
    }
    for (const std::string& other : installed_profilers()) {
      Result<std::string> again = print_page(other, report, page, metrics);
      if (again.ok()) {
        profile_.gaps.push_back(
            fmt::format("{} was printed by {}: {}", report, other, text.status().message()));
        return again;
      }
    }
    return text;
  }

  Status read_record() {
    const std::string file = path(fmt::format("analysis/collection_{}.json", profile_.tag));
    if (!fs::exists(file)) {
      return {};
    }
    const Result<std::string> text = host::read_file(file);
    if (!text.ok()) {
      return text.status();
    }
    Result<Collection> collection = read_collection(file, text.value());
    if (collection.ok()) {
      profile_.collection = std::move(collection.value());
    }
    return collection.status();
  }

  /// The first launch of a raw page.
  Result<std::optional<Launch>> launch(Page which, const std::vector<std::string>& metrics = {}) {
    Result<std::optional<std::string>> text = page(which, "full", metrics);
    if (!text.ok() || !text.value()) {
      return text.ok() ? Result<std::optional<Launch>>(std::optional<Launch>())
                       : Result<std::optional<Launch>>(text.status());
    }
    Result<std::vector<Launch>> launches =
        parse_raw_page(path(page_file(which, profile_.tag)), *text.value());
    if (!launches.ok()) {
      return launches.status();
    }
    if (launches.value().empty()) {
      profile_.gaps.push_back(page_file(which, profile_.tag) + " holds no launch");
      return std::optional<Launch>();
    }
    profile_.launches = static_cast<int64_t>(launches.value().size());
    return std::optional(std::move(launches.value().front()));
  }

  Status read_raw() {
    Result<std::optional<Launch>> found = launch(Page::kRaw);
    if (!found.ok() || !found.value()) {
      return found.status();
    }
    launch_ = std::move(*found.value());
    has_raw_ = true;
    profile_.kernel = launch_.kernel;
    profile_.grid = launch_.grid;
    profile_.block = launch_.block;
    profile_.device = launch_.device;
    profile_.compute_capability = launch_.compute_capability;
    profile_.metrics = resolve_metrics(launch_, options_.extra);
    profile_.limiter = occupancy_limiter(profile_.metrics);
    profile_.stalls = read_stalls(launch_);
    profile_.roofline = read_roofline(launch_, profile_.metrics);
    return {};
  }

  Status read_instances() {
    const std::vector<std::string> names = timeline_metrics(launch_);
    if (names.empty()) {
      profile_.timeline = read_timeline(launch_);
      return {};
    }
    const Result<std::optional<Launch>> sampled = launch(Page::kInstances, names);
    if (!sampled.ok()) {
      return sampled.status();
    }
    profile_.timeline = read_timeline(sampled.value() ? *sampled.value() : launch_);
    if (!profile_.timeline.interval_s) {
      profile_.timeline.interval_s = launch_.value("profiler__pmsampler_interval_time");
    }
    return {};
  }

  Status read_details() {
    const Result<std::optional<std::string>> text = page(Page::kDetails, "full");
    if (!text.ok() || !text.value()) {
      return text.status();
    }
    Result<std::vector<RuleHint>> hints =
        parse_details_page(path(page_file(Page::kDetails, profile_.tag)), *text.value());
    if (hints.ok()) {
      profile_.hints = std::move(hints.value());
    }
    return hints.status();
  }

  /// Instructions of a page; none where it cannot be had.
  Result<std::optional<std::vector<Instruction>>> code(Page which) {
    using Found = std::optional<std::vector<Instruction>>;
    const Result<std::optional<std::string>> text = page(which, "source");
    if (!text.ok() || !text.value()) {
      return text.ok() ? Result<Found>(Found()) : Result<Found>(text.status());
    }
    Result<std::vector<Instruction>> parsed =
        parse_source_page(path(page_file(which, profile_.tag)), *text.value());
    return parsed.ok() ? Result<Found>(std::move(parsed.value())) : Result<Found>(parsed.status());
  }

  /// Samples come from the plain page. The one with source lines may show an instruction under
  /// several of them (inlined code): the first is taken.
  Status read_code() {
    Result<std::optional<std::vector<Instruction>>> plain = code(Page::kSource);
    if (!plain.ok() || !plain.value()) {
      return plain.status();
    }
    std::vector<Instruction>& instructions = *plain.value();
    const Result<std::optional<std::vector<Instruction>>> lines = code(Page::kLines);
    if (!lines.ok()) {
      profile_.gaps.push_back("no source lines: " + std::string(lines.status().message()));
    } else if (lines.value()) {
      std::map<std::string_view, const Instruction*> places;
      for (const Instruction& one : *lines.value()) {
        places.emplace(one.address, &one);
      }
      for (Instruction& one : instructions) {
        if (const auto place = places.find(one.address); place != places.end()) {
          one.file = place->second->file;
          one.line = place->second->line;
        }
      }
    }
    profile_.hotspots = find_hotspots(instructions, options_.top);
    return {};
  }

  const AnalysisOptions& options_;
  KernelProfile profile_;
  Launch launch_;
  bool has_raw_ = false;
};

}  // namespace

std::vector<std::string> find_tags(const std::string& run_dir) {
  std::set<std::string> tags;
  const auto add = [&](const char* folder, std::string_view prefix, std::string_view suffix) {
    for (const std::string& file : host::list_files(fmt::format("{}/{}", run_dir, folder))) {
      if (file.starts_with(prefix) && file.ends_with(suffix) &&
          file.size() > prefix.size() + suffix.size() && !file.ends_with(".partial.ncu-rep")) {
        tags.insert(file.substr(prefix.size(), file.size() - prefix.size() - suffix.size()));
      }
    }
  };
  for (const char* pass : {"full_", "source_"}) {
    add("reports", pass, ".ncu-rep");
  }
  for (const char* page : {"raw_", "source_"}) {
    add("analysis", page, ".csv");
  }
  return {tags.begin(), tags.end()};
}

Result<KernelProfile> analyse(const AnalysisOptions& options, const std::string& tag) {
  return Reader(options, tag).read();
}

}  // namespace fla::perf::ncu
