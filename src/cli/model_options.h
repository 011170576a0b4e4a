// SPDX-License-Identifier: MIT
// What `fla bench train` and `fla bench generate` share: the model's options, and the lines that
// name it.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "fla/status.h"
#include "model/config.h"
#include "perf/models/bench_train.h"

namespace fla::cli {

/// Declares --name, --num-heads, --head-dim, --num-hidden-layers and --config KEY=VALUE.
void declare_model(CLI::App* app, perf::ModelChoice* choice, std::vector<std::string>* keys);
/// --config's texts into the choice. Errors: kInvalidArgument for one without "=".
Status split_keys(const std::vector<std::string>& keys, perf::ModelChoice* choice);
/// 2 layers, 2 heads of 64 and 1024 tokens of vocabulary, where the user said nothing else.
void shrink_model(const CLI::App& app, perf::ModelChoice* choice);

/// "model  kda (KDAForCausalLM): 24 layers, hidden 2048, ..." and the number of parameters.
std::string model_lines(const model::Config& config, int64_t num_parameters);

/// The named options that the user gave, with their values and upstream's underscores.
Arguments given_options(const CLI::App& app, std::initializer_list<const char*> names);

int exit_status_of(const Status& status);

}  // namespace fla::cli
