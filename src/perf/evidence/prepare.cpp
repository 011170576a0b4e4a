// SPDX-License-Identifier: MIT
// Refs to trees, options to benches.
#include "perf/evidence/prepare.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include <fmt/format.h>

#include "ops/registry.h"
#include "perf/adapters/adapters.h"
#include "perf/evidence/glob.h"
#include "perf/evidence/sides.h"
#include "perf/host/process.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

Status invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

Status find_trees(const Request& request, Plan* plan) {
  const Result<host::Tree> base = host::resolve(request.repo, request.base);
  if (!base.ok()) {
    return base.status();
  }
  const Result<host::Tree> head =
      request.head == "worktree"
          ? host::snapshot(request.repo, request.include_untracked ? 0 : 50 << 20)
          : host::resolve(request.repo, request.head);
  if (!head.ok()) {
    return head.status();
  }
  plan->base = base.value();
  plan->head = head.value();
  return {};
}

Status find_changes(const Request& request, const Config& config, Plan* plan) {
  const auto changed = host::git_list(request.repo, {"diff", "--name-only", "-z", "--no-renames",
                                                     plan->base.tree, plan->head.tree});
  if (!changed.ok()) {
    return changed.status();
  }
  plan->kernel_globs = config.kernel_globs;
  plan->changed_files = changed.value();
  std::copy_if(plan->changed_files.begin(), plan->changed_files.end(),
               std::back_inserter(plan->kernel_files), [&](const std::string& file) {
                 return any_glob_matches(config.kernel_globs, file);
               });
  return {};
}

/// The ops that own the changed kernel files; a file that nobody owns belongs to all of them.
Result<std::vector<std::string>> owned_ops(const Config& config, const Plan& plan) {
  std::set<std::string> ops;
  std::set<std::string> all;
  for (const auto& [glob, names] : config.owners) {
    all.insert(names.begin(), names.end());
  }
  for (const std::string& file : plan.kernel_files) {
    bool owned = false;
    for (const auto& [glob, names] : config.owners) {
      if (glob_matches(glob, file)) {
        ops.insert(names.begin(), names.end());
        owned = true;
      }
    }
    if (!owned) {
      ops.insert(all.begin(), all.end());
    }
  }
  if (ops.empty()) {
    return invalid("--from-diff: no kernel file changed, or fla.toml has no [owners]");
  }
  return std::vector<std::string>(ops.begin(), ops.end());
}

void append(std::vector<std::string>* words, const char* option,
            const std::vector<std::string>& values) {
  if (!values.empty()) {
    words->emplace_back(option);
    words->insert(words->end(), values.begin(), values.end());
  }
}

std::vector<std::string> native_argv(const Request& request, const Config& config,
                                     const std::vector<std::string>& ops) {
  std::vector<std::string> argv = {"{side}/" + config.binary, "bench", "ops"};
  append(&argv, "--op", ops);
  append(&argv, "--modes", request.modes);
  append(&argv, "--dtype", request.dtypes);
  append(&argv, "--shapes", request.shapes);
  if (!request.custom_shapes.empty()) {
    append(&argv, "--custom-shapes", {request.custom_shapes});
  }
  if (!request.device.empty()) {
    append(&argv, "--device", {request.device});
  }
  return argv;
}

/// One bench holds dense and packed rows: each row says which it is.
Status add_native(const Request& request, const Config& config, Plan* plan) {
  std::vector<std::string> ops = request.ops;
  if (request.from_diff) {
    const auto owned = owned_ops(config, *plan);
    if (!owned.ok()) {
      return owned.status();
    }
    ops = owned.value();
  }
  if (ops.empty()) {
    return {};
  }
  for (const std::string& op : ops) {
    if (const auto found = ops::find_op(op); !found.ok()) {
      return found.status();
    }
  }
  if (config.binary.empty()) {
    return invalid("--op needs [build] binary in fla.toml; other programs are measured by --bench");
  }
  Bench bench{.label = "ops",
              .coverage = "dense",
              .argv = native_argv(request, config, ops),
              .parser = "fla"};
  plan->profile_argv = bench.argv;
  append(&plan->profile_argv, "--profile", {"-q"});
  append(&bench.argv, "--varlen", request.varlen);
  append(&bench.argv, "--quick", {"-q"});
  append(&bench.argv, "--json", {"{json}"});
  plan->benches.push_back(std::move(bench));
  plan->native = true;
  plan->binary = config.binary;
  plan->build =
      request.bundled && !config.bundle_build.empty() ? config.bundle_build : config.build;
  plan->profile_tag = fmt::format("{}_{}", ops.front(), request.modes.front());
  for (const std::string_view side : kSides) {
    const auto digest = digest_files(request.repo, tree_of(*plan, side).tree, config.runner_globs);
    if (!digest.ok()) {
      return digest.status();
    }
    plan->runner_digests[std::string(side)] = digest.value();
  }
  return {};
}

/// The program's own source files, when they are in the repository: a python module's package, or
/// the script.
std::vector<std::string> runner_of(const Plan& plan, const Request& request, const Bench& bench) {
  const auto files =
      host::git_list(request.repo, {"ls-tree", "-r", "-z", "--name-only", plan.head.tree});
  std::vector<std::string> found;
  for (size_t i = 0; files.ok() && i < bench.argv.size(); ++i) {
    std::string module = bench.argv[i];
    std::replace(module.begin(), module.end(), '.', '/');
    const bool is_module = i > 0 && bench.argv[i - 1] == "-m";
    const std::string package = module.substr(0, module.rfind('/') + 1);
    for (const std::string& file : files.value()) {
      const bool in_package = is_module && !package.empty() && file.starts_with(package) &&
                              file.ends_with(".py") &&
                              file.find('/', package.size()) == std::string::npos;
      if (in_package || file == bench.argv[i] || (is_module && file == module + ".py")) {
        found.push_back(file);
      }
    }
  }
  return found;
}

Status set_parsers(const Request& request, Plan* plan) {
  for (const std::string& text : request.parsers) {
    const size_t equals = text.find('=');
    const std::string label = text.substr(0, equals);
    const auto bench =
        std::find_if(plan->benches.begin(), plan->benches.end(),
                     [&](const Bench& candidate) { return candidate.label == label; });
    if (equals == std::string::npos || bench == plan->benches.end()) {
      return invalid(fmt::format("--parse '{}' is not LABEL=PARSER of a --bench", text));
    }
    bench->parser = text.substr(equals + 1);
  }
  for (const Bench& bench : plan->benches) {
    if (const auto parser = Parser::find(bench.parser); !parser.ok()) {
      return parser.status();
    } else if (parser.value().reads_json() &&
               std::none_of(bench.argv.begin(), bench.argv.end(), [](const std::string& word) {
                 return word.find("{json}") != std::string::npos;
               })) {
      return invalid(
          fmt::format("--bench {}: the parser {} reads a file; write {{json}} where the "
                      "command takes its name",
                      bench.label, bench.parser));
    }
  }
  return {};
}

Status add_foreign(const Request& request, Plan* plan) {
  std::set<std::string> frozen(request.runner_files.begin(), request.runner_files.end());
  std::set<std::string> labels = {"ops"};
  for (const std::string& text : request.benches) {
    Result<Bench> bench = parse_bench(text);
    if (!bench.ok()) {
      return bench.status();
    }
    if (!labels.insert(bench.value().label).second) {
      return invalid(fmt::format("--bench: the label '{}' is taken", bench.value().label));
    }
    const std::vector<std::string> own = runner_of(*plan, request, bench.value());
    frozen.insert(own.begin(), own.end());
    plan->benches.push_back(std::move(bench.value()));
  }
  if (Status status = set_parsers(request, plan); !status.ok()) {
    return status;
  }
  plan->frozen_files.assign(frozen.begin(), frozen.end());
  const auto digest = digest_files(request.repo, plan->head.tree, plan->frozen_files);
  if (!digest.ok()) {
    return digest.status();
  }
  if (!plan->native) {
    plan->runner_digests = {{"base", digest.value()}, {"head", digest.value()}};
  }
  return {};
}

Status set_foreign_duties(const Request& request, Plan* plan) {
  plan->seed_shim = request.seed_shim;
  plan->import_name = request.import_name;
  const bool upstream =
      std::any_of(plan->benches.begin(), plan->benches.end(), [](const Bench& bench) {
        return bench.parser.starts_with("fla-") && starts_python(bench.argv);
      });
  if (plan->import_name.empty() && upstream && request.probe.empty()) {
    plan->import_name = "fla";
  }
  const Result<std::vector<std::string>> probe = host::split_words(request.probe);
  if (!probe.ok()) {
    return probe.status();
  }
  plan->probe = probe.value();
  if (!request.profile_bench.empty() || plan->profile_argv.empty()) {
    const std::string label =
        request.profile_bench.empty() ? plan->benches.front().label : request.profile_bench;
    const auto bench =
        std::find_if(plan->benches.begin(), plan->benches.end(),
                     [&](const Bench& candidate) { return candidate.label == label; });
    if (bench == plan->benches.end()) {
      return invalid(fmt::format("--profile-cmd '{}' names no --bench", label));
    }
    plan->profile_argv = bench->argv;
    plan->profile_tag = label;
  }
  return {};
}

Status set_rules(const Request& request, const Config& config, Plan* plan) {
  const Result<std::vector<std::string>> gate =
      host::split_words(request.gate.empty() ? config.gate : request.gate);
  if (!gate.ok()) {
    return gate.status();
  }
  if (request.gate != "none") {
    plan->gate = gate.value();
  }
  if (request.profile != "both" && request.profile != "head" && request.profile != "none") {
    return invalid(fmt::format("--profile '{}' is not both, head or none", request.profile));
  }
  plan->profile = request.new_op && request.profile == "both" ? "head" : request.profile;
  plan->kernel = request.kernel;
  plan->varlen_unsupported = request.varlen_unsupported;
  plan->allowed_clones = request.allowed_clones;
  if (request.rounds > 0) {
    plan->least_rounds = request.rounds;
    plan->most_rounds = request.rounds;
  }
  const auto all_parsed_by = [&](std::string_view parser) {
    return std::all_of(plan->benches.begin(), plan->benches.end(),
                       [&](const Bench& bench) { return bench.parser == parser; });
  };
  plan->threshold = request.threshold > 0           ? request.threshold
                    : all_parsed_by("fla-train")    ? 0.02
                    : all_parsed_by("fla-generate") ? 0.03
                                                    : 0.01;
  return {};
}

std::string default_run_name(const Request& request, const Plan& plan) {
  const Bench& first = plan.benches.front();
  const std::string what =
      plan.native ? plan.profile_tag : fmt::format("{}_{}", first.label, first.coverage);
  std::string date = request.created.substr(0, 10);
  std::erase(date, '-');
  return what + '_' + date;
}

}  // namespace

Result<Plan> make_plan(const Request& request, const Config& config) {
  Plan plan;
  plan.created = request.created;
  plan.repo_name = fs::path(request.repo).filename().string();
  plan.bundled = request.bundled;
  plan.new_op = request.new_op;
  plan.hardware = config.hardware;
  if (plan.new_op) {
    plan.notes.emplace_back("base has no counterpart (--new-op): head alone was measured");
  }
  for (const auto& step :
       {std::function<Status()>([&] { return find_trees(request, &plan); }),
        std::function<Status()>([&] { return find_changes(request, config, &plan); }),
        std::function<Status()>([&] { return add_native(request, config, &plan); }),
        std::function<Status()>([&] { return add_foreign(request, &plan); })}) {
    if (Status status = step(); !status.ok()) {
      return status;
    }
  }
  if (plan.benches.empty()) {
    return invalid(
        "nothing to run: name operators with --op, --from-diff, or commands with --bench");
  }
  for (const Status& status :
       {set_foreign_duties(request, &plan), set_rules(request, config, &plan)}) {
    if (!status.ok()) {
      return status;
    }
  }
  plan.run_name = request.run_name.empty() ? default_run_name(request, plan) : request.run_name;
  if (plan.run_name.find('/') != std::string::npos || plan.run_name.starts_with('.')) {
    return invalid(fmt::format("--run '{}' is not a folder name", plan.run_name));
  }
  return plan;
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format("run      {}\n", plan.run_name);
  for (const std::string_view side : kSides) {
    const host::Tree& tree = tree_of(plan, side);
    text += fmt::format("{:<8} {} commit {} tree {}{}\n", side, tree.ref, tree.commit.substr(0, 12),
                        tree.tree.substr(0, 12),
                        tree.dirty ? fmt::format(", not committed: {}", tree.diffstat) : "");
    text += runs(plan, side) ? "" : "         not run: it has no counterpart\n";
  }
  text += fmt::format("scope    {} files changed, {} of them kernel files\n",
                      plan.changed_files.size(), plan.kernel_files.size());
  for (const Bench& bench : plan.benches) {
    text += fmt::format("bench    {}@{} ({}): {}\n", bench.label, bench.coverage, bench.parser,
                        host::shell_line(bench.argv));
  }
  text += fmt::format("rounds   {} to {} of A B B A, threshold {:.3g} %\n", plan.least_rounds,
                      plan.most_rounds, 100 * plan.threshold);
  text += fmt::format("profile  {}{}\n", plan.profile,
                      plan.kernel.empty() ? "" : ", kernel " + plan.kernel);
  if (!plan.gate.empty()) {
    text += fmt::format("gate     {}\n", host::shell_line(plan.gate));
  }
  return text;
}

}  // namespace fla::perf::evidence
