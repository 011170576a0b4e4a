// SPDX-License-Identifier: MIT
// The user's own helper skill `ncu-report-skill`: found or not, never fetched.
#include "perf/ncu/skill.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "perf/host/digest.h"
#include "perf/host/files.h"
#include "perf/host/git.h"

namespace fla::perf::ncu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "ncu-report-skill";
constexpr std::array<const char*, 3> kHelpers = {"analyze_reports.py", "extract_stall_hotspots.py",
                                                 "plot_timeline.py"};

struct Place {
  const char* variable;  // folder that it names; empty: the home folder
  const char* below;
};
constexpr std::array<Place, 10> kPlaces = {{{"FLA_SKILL_DIR", ""},
                                            {"CLAUDE_CONFIG_DIR", "skills"},
                                            {"HOME", ".claude/skills"},
                                            {"CODEX_HOME", "skills"},
                                            {"HOME", ".codex/skills"},
                                            {"HOME", ".agents/skills"},
                                            {"HOME", ".config/agents/skills"},
                                            {"HOME", ".config/opencode/skill"},
                                            {"HOME", ".gemini/skills"},
                                            {"HOME", ".cursor/skills"}}};

std::string read_text(const fs::path& path) {
  const Result<std::string> text = host::read_file(path.string());
  return text.ok() ? text.value() : std::string();
}

bool is_skill(const fs::path& folder) {
  return fs::is_regular_file(folder / "SKILL.md") &&
         (folder.filename() == kName ||
          front_matter(read_text(folder / "SKILL.md"), "name") == kName);
}

/// The folder itself or one in it.
std::optional<fs::path> skill_in(const fs::path& place) {
  std::error_code error;
  if (is_skill(place)) {
    return place;
  }
  std::set<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
    if (entry.is_directory(error) && is_skill(entry.path())) {
      found.insert(entry.path());
    }
  }
  return found.empty() ? std::nullopt : std::optional(*found.begin());
}

bool is_below(const fs::path& path, const std::string& folder) {
  std::error_code error;
  const std::string inner = fs::weakly_canonical(path, error).string();
  const std::string outer = fs::weakly_canonical(folder, error).string();
  return !folder.empty() && (inner == outer || inner.starts_with(outer + "/"));
}

/// Files whose text may hold the recipe, metric names or helpers.
std::vector<std::string> relevant_files(const std::string& folder) {
  std::vector<std::string> files = host::list_files(folder);
  std::erase_if(files, [](const std::string& file) {
    const bool wanted = file.ends_with(".md") || file.ends_with(".py") || file.ends_with(".json") ||
                        file.ends_with(".sh") || file.ends_with(".txt");
    return !wanted || file.starts_with(".git/");
  });
  return files;
}

/// Words of a text, cut at everything that is not part of an option, a name or a number.
std::vector<std::string> words(std::string_view text) {
  constexpr std::string_view kPart =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:";
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t start = std::min(text.find_first_of(kPart), text.size());
    text.remove_prefix(start);
    const size_t end = std::min(text.find_first_not_of(kPart), text.size());
    if (end > 0) {
      words.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(end);
  }
  return words;
}

/// Sections and sets that the skill's texts pass to the profiler, against ours.
std::vector<std::string> recipe_differences(const Skill& skill) {
  const std::set<std::string> ours = {"--set full", "--set source", "--section PmSampling",
                                      "--section PmSampling_WarpStates",
                                      "--section SourceCounters"};
  std::set<std::string> theirs;
  for (const SkillFile& file : skill.files) {
    const std::vector<std::string> all = words(read_text(fs::path(skill.folder) / file.path));
    for (size_t i = 0; i + 1 < all.size(); ++i) {
      if ((all[i] == "--set" || all[i] == "--section") && !all[i + 1].starts_with("-")) {
        theirs.insert(all[i] + " " + all[i + 1]);
      }
    }
  }
  std::vector<std::string> differences;
  for (const std::string& one : theirs) {
    if (!ours.contains(one)) {
      differences.push_back("the skill also uses " + one);
    }
  }
  for (const std::string& one : ours) {
    if (!theirs.empty() && !theirs.contains(one)) {
      differences.push_back("the skill does without " + one);
    }
  }
  return differences;
}

std::string find_target(const std::string& skill_text) {
  const std::string description = front_matter(skill_text, "description");
  for (const char* gpu :
       {"GB300", "B300", "GB200", "B200", "H200", "H100", "H20", "A100", "5090"}) {
    if (description.find(gpu) != std::string::npos) {
      return gpu;
    }
  }
  return {};
}

void fill(Skill* skill) {
  if (fs::exists(fs::path(skill->folder) / ".git")) {
    const Result<std::string> commit = host::git(skill->folder, {"rev-parse", "HEAD"});
    skill->id = commit.ok() ? commit.value() : std::string();
  }
  skill->target = find_target(read_text(fs::path(skill->folder) / "SKILL.md"));
  for (const std::string& file : relevant_files(skill->folder)) {
    const Result<std::string> digest = host::sha256_file(fmt::format("{}/{}", skill->folder, file));
    if (digest.ok()) {
      skill->files.push_back({file, digest.value()});
    }
  }
  skill->differences = recipe_differences(*skill);
}

bool is_counter(const std::string& word) {
  return word.find("__") != std::string::npos && word.find('.') != std::string::npos;
}

}  // namespace

std::string Skill::note() const {
  if (found) {
    return fmt::format("used: {}{}{}", folder, id.empty() ? "" : "@", id);
  }
  return searched.empty() ? "not available: no folder of skills is known"
                          : fmt::format("not available: searched {}", fmt::join(searched, ", "));
}

std::string front_matter(std::string_view text, std::string_view key) {
  constexpr std::string_view kFence = "---\n";
  if (!text.starts_with(kFence)) {
    return {};
  }
  text.remove_prefix(kFence.size());
  text = text.substr(0, text.find("\n---"));
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.starts_with(key) && line.substr(key.size()).starts_with(":")) {
      line.remove_prefix(key.size() + 1);
      const size_t first = line.find_first_not_of(" \"'");
      const size_t last = line.find_last_not_of(" \"'\r");
      return first == std::string_view::npos ? std::string()
                                             : std::string(line.substr(first, last + 1 - first));
    }
  }
  return {};
}

Skill find_skill(const host::Environment& environment, const std::string& repository) {
  Skill skill;
  for (const Place& place : kPlaces) {
    const auto variable = environment.find(place.variable);
    if (variable == environment.end() || variable->second.empty()) {
      continue;
    }
    const fs::path folder = fs::path(variable->second) / place.below;
    skill.searched.push_back(folder.lexically_normal().string());
    const std::optional<fs::path> found = skill_in(folder);
    if (!found) {
      continue;
    }
    std::error_code error;
    if (is_below(*found, repository)) {
      skill.in_repository.push_back(found->string());
    } else if (!skill.found) {
      skill.found = true;
      skill.folder = fs::canonical(*found, error).string();
    }
  }
  if (skill.found) {
    fill(&skill);
  }
  return skill;
}

ExtraCandidates skill_candidates(const Skill& skill) {
  ExtraCandidates extra;
  for (const SkillFile& file : skill.files) {
    if (!file.path.ends_with(".md")) {
      continue;
    }
    const std::string text = read_text(fs::path(skill.folder) / file.path);
    for (size_t start = 0; start < text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      const std::vector<std::string> line =
          words(std::string_view(text).substr(start, end - start));
      start = end + 1;
      const auto known = std::find_if(line.begin(), line.end(), [](const std::string& word) {
        return !key_of_counter(word).empty();
      });
      for (const std::string& word : line) {
        if (known != line.end() && is_counter(word) && key_of_counter(word).empty()) {
          extra[key_of_counter(*known)].push_back(word);
        }
      }
    }
  }
  return extra;
}

std::vector<std::string> run_skill_helpers(const Skill& skill, const std::string& run_dir,
                                           const std::string& tag) {
  constexpr double kTimeoutS = 120;
  std::vector<std::string> lines;
  const std::string out = run_dir + "/analysis/skill";
  if (Status status = host::make_folders(out); !status.ok()) {
    return {std::string(status.message())};
  }
  for (const char* helper : kHelpers) {
    const auto file =
        std::find_if(skill.files.begin(), skill.files.end(),
                     [&](const SkillFile& one) { return fs::path(one.path).filename() == helper; });
    if (file == skill.files.end()) {
      lines.push_back(fmt::format("{}: not in the skill", helper));
      continue;
    }
    const std::string script = skill.folder + "/" + file->path;
    const std::string log = fmt::format("{}/{}_{}.txt", out, fs::path(helper).stem().string(), tag);
    const Result<host::Finished> run =
        host::run({.argv = {"python3", script, "--run-dir", run_dir, "--report",
                            fmt::format("{}/reports/full_{}.ncu-rep", run_dir, tag), "--tag", tag},
                   .out_file = log,
                   .err_file = log,
                   .timeout_s = kTimeoutS});
    const std::string outcome = !run.ok()               ? std::string(run.status().message())
                                : run.value().timed_out ? "stopped after 120 s"
                                : run.value().ok()
                                    ? "done"
                                    : fmt::format("ended with status {}", run.value().status);
    lines.push_back(fmt::format("{}: {}, output in {}", helper, outcome,
                                fs::path(log).lexically_relative(run_dir).string()));
  }
  return lines;
}

}  // namespace fla::perf::ncu
