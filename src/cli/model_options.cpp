// SPDX-License-Identifier: MIT
// The options that choose a model.
#include "cli/model_options.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/family.h"

namespace fla::cli {

void declare_model(CLI::App* app, perf::ModelChoice* choice, std::vector<std::string>* keys) {
  const auto at_least_one = CLI::Range(int64_t{1}, int64_t{1} << 30);
  app->add_option("--name", choice->name,
                  "A family (kda, gla, ...) or a folder with a config.json (default: kda)");
  app->add_option("--num-heads", choice->num_heads, "Of the config")->check(at_least_one);
  app->add_option("--head-dim", choice->head_dim,
                  "Of the config; the hidden size becomes heads times this")
      ->check(at_least_one);
  app->add_option("--num-hidden-layers", choice->num_hidden_layers, "Of the config")
      ->check(at_least_one);
  app->add_option("--config", *keys, "KEY=VALUE: any key of the family's config.json")
      ->expected(1, -1);
}

Status split_keys(const std::vector<std::string>& keys, perf::ModelChoice* choice) {
  for (const std::string& text : keys) {
    const size_t at = text.find('=');
    if (at == std::string::npos)
      return {Code::kInvalidArgument, fmt::format("--config: '{}' is no KEY=VALUE", text)};
    choice->keys.emplace_back(text.substr(0, at), text.substr(at + 1));
  }
  return {};
}

void shrink_model(const CLI::App& app, perf::ModelChoice* choice) {
  constexpr int64_t kHeads = 2;
  constexpr int64_t kHeadDim = 64;
  const model::Config config = model::Config::of(choice->name).ok()
                                   ? model::Config::of(choice->name).value()
                                   : model::Config::of("kda").value();
  const auto silent = [&](const char* option) { return app.get_option(option)->count() == 0; };
  if (silent("--num-hidden-layers"))
    choice->num_hidden_layers = 2;
  if (config.knows("num_heads") && !config.is_null("num_heads") && silent("--num-heads") &&
      silent("--head-dim")) {
    choice->num_heads = kHeads;
    choice->head_dim = kHeadDim;
  } else if (silent("--head-dim")) {
    choice->keys.emplace_back("hidden_size", std::to_string(kHeads * kHeadDim));
  }
  choice->keys.emplace_back("vocab_size", "1024");
}

std::string model_lines(const model::Config& config, int64_t num_parameters) {
  std::string text =
      fmt::format("model: {} ({}), {} layers, hidden {}, vocabulary {}", config.family().name,
                  config.family().architecture, config.integer("num_hidden_layers"),
                  config.integer("hidden_size"), config.integer("vocab_size"));
  for (const char* key : {"num_heads", "head_dim", "expand_v", "state_size"}) {
    if (!config.knows(key) || config.is_null(key))
      continue;
    text += fmt::format(", {} {}", key, config.number(key));
  }
  return text + fmt::format("\nparameters: {} ({:.2f} M)\n", num_parameters,
                            static_cast<double>(num_parameters) / 1e6);
}

Arguments given_options(const CLI::App& app, std::initializer_list<const char*> names) {
  Arguments arguments;
  for (const char* name : names) {
    const CLI::Option* option = app.get_option(name);
    if (option->count() == 0)
      continue;
    std::string spelled = name;
    std::replace(spelled.begin() + 2, spelled.end(), '-', '_');
    arguments.push_back(spelled);
    if (option->get_expected_min() > 0)
      arguments.push_back(option->results().front());
  }
  return arguments;
}

int exit_status_of(const Status& status) {
  switch (status.code()) {
    case Code::kOk:
      return kDone;
    case Code::kInvalidArgument:
    case Code::kUnsupported:
      return kUsage;
    case Code::kNoDevice:
      return kEnvironment;
    case Code::kIo:
      return kUnreadable;
    default:
      return kWorkload;
  }
}

}  // namespace fla::cli
