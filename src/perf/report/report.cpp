// SPDX-License-Identifier: MIT
// Turns a run's reports and results into REPORT.md and report.html.
#include "perf/report/report.h"

#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "perf/host/files.h"
#include "perf/ncu/pages.h"
#include "perf/report/sections.h"
#include "perf/write_file.h"

namespace fla::perf {
namespace {

namespace fs = std::filesystem;
using report::RunData;

using SectionOf = report::Section (*)(const RunData&);
constexpr std::array<SectionOf, 12> kFlaLayout = {
    report::header_section,       report::reading_section,    report::setup_section,
    report::before_after_section, report::machine_section,    report::headline_section,
    report::stalls_section,       report::timeline_section,   report::findings_section,
    report::traps_section,        report::conclusion_section, report::files_section};
constexpr std::array<SectionOf, 12> kSkillLayout = {
    report::header_section,   report::reading_section,      report::headline_section,
    report::findings_section, report::stalls_section,       report::timeline_section,
    report::setup_section,    report::before_after_section, report::machine_section,
    report::traps_section,    report::conclusion_section,   report::files_section};

Result<std::vector<ncu::KernelProfile>> read_profiles(const ReportOptions& options,
                                                      const std::string& run_dir,
                                                      const ncu::ExtraCandidates& extra) {
  std::vector<ncu::KernelProfile> profiles;
  for (const std::string& tag : ncu::find_tags(run_dir)) {
    Result<ncu::KernelProfile> profile = ncu::analyse(
        {.run_dir = run_dir, .ncu = options.ncu, .top = options.top, .extra = extra}, tag);
    if (!profile.ok()) {
      return profile.status();
    }
    profiles.push_back(std::move(profile.value()));
  }
  return profiles;
}

Result<nlohmann::json> load_comparison(const std::string& run_dir) {
  for (const char* place : {"/compare.json", "/analysis/compare.json"}) {
    if (fs::exists(run_dir + place)) {
      return report::load_document(run_dir + place, "fla.compare");
    }
  }
  return nlohmann::json(nullptr);
}

Status save_profile(const std::string& run_dir, const ncu::KernelProfile& profile) {
  const std::pair<std::string, std::string> files[] = {
      {fmt::format("metrics_{}.json", profile.tag), to_json(profile)},
      {fmt::format("hotspots_{}.json", profile.tag), hotspots_json(profile)},
      {fmt::format("timeline_{}.txt", profile.tag), timeline_text(profile.timeline)}};
  for (const auto& [name, text] : files) {
    if (Status status = write_file(fmt::format("{}/analysis/{}", run_dir, name), text);
        !status.ok()) {
      return status;
    }
  }
  return {};
}

void add_notes(const ReportOptions& options, RunData* data) {
  if (options.ncu.empty()) {
    data->notes.push_back("Nsight Compute is not available here: " +
                          (options.ncu_note.empty() ? "it was not asked for" : options.ncu_note));
  }
  data->notes.push_back(options.gnuplot.empty()
                            ? "gnuplot is not installed: the tables stand without drawings"
                            : "drawings by gnuplot; their programs are in analysis/plots");
}

report::Document compose(const RunData& data, const std::string& layout,
                         std::vector<std::string>* notes) {
  report::Document document;
  document.title = fmt::format("Profile report: {}", data.run_name);
  for (const SectionOf section_of : layout == "skill" ? kSkillLayout : kFlaLayout) {
    report::Section section = section_of(data);
    document.blocks.insert(document.blocks.end(), section.blocks.begin(), section.blocks.end());
    notes->insert(notes->end(), section.notes.begin(), section.notes.end());
  }
  return document;
}

Status check_options(const ReportOptions& options) {
  if (options.layout != "fla" && options.layout != "skill") {
    return {Code::kInvalidArgument,
            fmt::format("report: layout '{}', expected fla or skill", options.layout)};
  }
  for (const std::string& folder : {options.run_dir, options.diff_dir}) {
    if (!folder.empty() && !fs::is_directory(folder)) {
      return {Code::kInvalidArgument, fmt::format("report: '{}' is not a folder", folder)};
    }
  }
  return {};
}

/// Everything that the report is written from.
Status gather(const ReportOptions& options, RunData* data) {
  data->run_dir = fs::path(options.run_dir).lexically_normal().string();
  data->run_name = fs::absolute(fs::path(options.run_dir) / "x")
                       .lexically_normal()
                       .parent_path()
                       .filename()
                       .string();
  data->version = options.version;
  data->gnuplot = options.gnuplot;
  data->skill = ncu::find_skill(options.environment, options.repository);
  const ncu::ExtraCandidates extra = ncu::skill_candidates(data->skill);
  Result<std::vector<ncu::KernelProfile>> profiles = read_profiles(options, options.run_dir, extra);
  Result<std::vector<ncu::KernelProfile>> earlier =
      options.diff_dir.empty() ? Result(std::vector<ncu::KernelProfile>())
                               : read_profiles(options, options.diff_dir, extra);
  Result<nlohmann::json> evidence =
      report::load_document(options.run_dir + "/evidence.json", "fla.evidence");
  Result<nlohmann::json> comparison = load_comparison(options.run_dir);
  for (const Status& status :
       {profiles.status(), earlier.status(), evidence.status(), comparison.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  data->profiles = std::move(profiles.value());
  data->earlier = std::move(earlier.value());
  data->evidence = std::move(evidence.value());
  data->comparison = std::move(comparison.value());
  if (data->profiles.empty() && data->evidence.is_null() && data->comparison.is_null()) {
    return {Code::kInvalidArgument,
            fmt::format("report: '{}' holds no profile, evidence.json or compare.json",
                        options.run_dir)};
  }
  add_notes(options, data);
  return {};
}

}  // namespace

Result<ReportFiles> write_report(const ReportOptions& options) {
  if (Status status = check_options(options); !status.ok()) {
    return status;
  }
  RunData data;
  if (Status status = gather(options, &data); !status.ok()) {
    return status;
  }
  if (Status status = host::make_folders(options.run_dir + "/analysis/plots"); !status.ok()) {
    return status;
  }
  ReportFiles files;
  for (const ncu::KernelProfile& profile : data.profiles) {
    if (Status status = save_profile(options.run_dir, profile); !status.ok()) {
      return status;
    }
    files.tags.push_back(profile.tag);
    files.notes.insert(files.notes.end(), profile.gaps.begin(), profile.gaps.end());
    if (options.with_skill && data.skill.found) {
      for (std::string& line : ncu::run_skill_helpers(data.skill, options.run_dir, profile.tag)) {
        data.skill_runs.push_back(std::move(line));
      }
    }
  }
  files.markdown = options.run_dir + "/REPORT.md";
  files.html = options.run_dir + "/report.html";
  report::HumanTexts written;
  if (fs::exists(files.markdown)) {
    const Result<std::string> before = host::read_file(files.markdown);
    if (!before.ok()) {
      return before.status();
    }
    written = report::read_human_texts(before.value());
  }
  const report::Document document = compose(data, options.layout, &files.notes);
  for (const auto& [path, text] :
       {std::pair(files.markdown, report::to_markdown(document, written)),
        std::pair(files.html, report::to_html(document, written))}) {
    if (Status status = write_file(path, text); !status.ok()) {
      return status;
    }
  }
  return files;
}

Status write_failure_report(const std::string& run_dir, const ProfileRun& run) {
  report::Document document;
  document.title =
      fmt::format("Profile report: {}", fs::path(run_dir).lexically_normal().filename().string());
  document.blocks.push_back(report::Table{
      {{"what", "value"}, {"state", "failed"}, {"cause", run.cause}, {"message", run.message}}});
  if (!run.kernels.empty()) {
    document.blocks.push_back(report::Paragraph{"Kernels that ran:"});
    document.blocks.push_back(report::Items{run.kernels});
  }
  document.blocks.push_back(
      report::Paragraph{"Commands, in order; what they printed is in "
                        "`analysis/logs`:"});
  report::Listing commands;
  for (const std::vector<std::string>& command : run.collection.commands) {
    commands.text += host::shell_line(command) + "\n";
  }
  document.blocks.push_back(std::move(commands));
  return write_file(run_dir + "/REPORT.md", to_markdown(document, {}));
}

Result<std::string> list_metrics(const std::string& run_dir, const std::string& pattern) {
  std::string text;
  for (const std::string& tag : ncu::find_tags(run_dir)) {
    const std::string path = run_dir + "/" + ncu::page_file(ncu::Page::kRaw, tag);
    if (!fs::exists(path)) {
      continue;
    }
    const Result<std::string> page = host::read_file(path);
    if (!page.ok()) {
      return page.status();
    }
    const Result<std::vector<ncu::Launch>> launches = ncu::parse_raw_page(path, page.value());
    if (!launches.ok()) {
      return launches.status();
    }
    for (const ncu::Launch& launch : launches.value()) {
      for (const auto& [name, metric] : launch.metrics) {
        if (name.find(pattern) != std::string::npos) {
          text += fmt::format("{}  {} = {} {}\n", tag, name, metric.quantity.value,
                              metric.quantity.unit);
        }
      }
    }
  }
  return text;
}

}  // namespace fla::perf
