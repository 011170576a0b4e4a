// SPDX-License-Identifier: MIT
// Commands of the two sides, alike but for their folders.
#include "perf/evidence/sides.h"

#include <filesystem>

#include <fmt/format.h>

#include "perf/host/digest.h"
#include "perf/host/files.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

constexpr int kSeed = 20250603;

/// Index of "-m" or of the script in a python command line; 0 where there is neither.
size_t target_index(const std::vector<std::string>& argv) {
  const std::string program = argv.empty() ? "" : argv[0].substr(argv[0].rfind('/') + 1);
  if (!program.starts_with("python")) {
    return 0;
  }
  for (size_t i = 1; i < argv.size(); ++i) {
    if (argv[i] == "-m") {
      return i + 1 < argv.size() ? i : 0;
    }
    if (argv[i] == "-c") {
      return 0;
    }
    if (!argv[i].starts_with('-')) {
      return i;
    }
  }
  return 0;
}

std::vector<std::string> with_shim(const std::vector<std::string>& argv, const std::string& shim) {
  const size_t target = target_index(argv);
  if (target == 0) {
    return argv;
  }
  const bool module = argv[target] == "-m";
  std::vector<std::string> words(argv.begin(), argv.begin() + static_cast<std::ptrdiff_t>(target));
  words.insert(words.end(), {shim, fmt::format("{}", kSeed), module ? "module" : "script"});
  words.insert(words.end(), argv.begin() + static_cast<std::ptrdiff_t>(target + (module ? 1 : 0)),
               argv.end());
  return words;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); !from.empty() && at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string seeding_shim() {
  return R"(# Starts a python program with seeded random generators.
# usage: shim.py SEED module|script TARGET ARGUMENT...
import os, random, runpy, sys

seed, kind, target = int(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.argv = sys.argv[3:]
random.seed(seed)
setters = {"numpy": lambda m: m.random.seed(seed), "torch": lambda m: m.manual_seed(seed)}
for name, set_seed in setters.items():
    try:
        set_seed(__import__(name))
    except ImportError:
        pass
sys.path[0] = os.getcwd() if kind == "module" else os.path.dirname(os.path.abspath(target))
if kind == "module":
    runpy.run_module(target, run_name="__main__", alter_sys=True)
else:
    runpy.run_path(target, run_name="__main__")
)";
}

bool starts_python(const std::vector<std::string>& argv) {
  return target_index(argv) != 0;
}

host::Command side_command(const Plan& plan, const SideFolders& folders,
                           const std::vector<std::string>& argv, const std::string& json,
                           const host::Environment& environment) {
  host::Command command;
  command.argv = fill_in(argv, {{"side", folders.tree}, {"json", json}});
  command.cwd = folders.tree;
  if (plan.native) {
    command.env = {
        {"XDG_DATA_HOME", folders.caches + "/data"}};  // a block is no run of the history
    return command;
  }
  if (plan.seed_shim) {
    command.argv = with_shim(command.argv, folders.caches + "/../shim.py");
  }
  const auto old_path = environment.find("PYTHONPATH");
  command.env = {
      {"TRITON_CACHE_DIR", folders.caches + "/triton"},
      {"TORCHINDUCTOR_CACHE_DIR", folders.caches + "/inductor"},
      {"CUDA_CACHE_PATH", folders.caches + "/cuda"},
      {"XDG_CACHE_HOME", folders.caches + "/xdg"},
      {"TRITON_CACHE_AUTOTUNING", "1"},
      {"GIT_DIR", "/nonexistent"},  // upstream's runner would measure the main branch as well
      {"PYTHONDONTWRITEBYTECODE", "1"},
      {"PYTHONHASHSEED", "0"},
      {"PYTHONPATH", folders.tree + (old_path == environment.end() || old_path->second.empty()
                                         ? ""
                                         : ':' + old_path->second)}};
  return command;
}

std::string environment_digest(const host::Command& command, const SideFolders& folders,
                               const host::Environment& environment) {
  host::Environment variables = environment;
  for (const auto& [name, value] : command.env) {
    if (value) {
      variables[name] = *value;
    } else {
      variables.erase(name);
    }
  }
  std::string text;
  for (const auto& [name, value] : variables) {
    for (const std::string_view prefix :
         {"CUDA_", "NVIDIA_", "TRITON_", "TORCH", "FLA_", "OMP_", "LD_LIBRARY_PATH", "PYTHON"}) {
      if (name.starts_with(prefix)) {
        text += fmt::format(
            "{}={}\n", name,
            replaced(replaced(value, folders.caches, "{caches}"), folders.tree, "{side}"));
        break;
      }
    }
  }
  return host::sha256(text);
}

Status freeze_runner(const Plan& plan, const std::string& base, const std::string& head) {
  for (const std::string& file : plan.frozen_files) {
    const std::string target = fmt::format("{}/{}", base, file);
    const std::string folder = fs::path(target).parent_path().string();
    if (Status status = host::make_folders(folder); !status.ok()) {
      return status;
    }
    if (Status status = host::copy_file(fmt::format("{}/{}", head, file), target); !status.ok()) {
      return status;
    }
  }
  return {};
}

}  // namespace fla::perf::evidence
