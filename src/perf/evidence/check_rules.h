// SPDX-License-Identifier: MIT
// The single rules of the check, by what each of them reads.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "perf/evidence/check.h"

namespace fla::perf::evidence {

/// What a rule found: nothing wrong, or what, and how to mend it.
struct Finding {
  Mark mark = Mark::kPass;
  std::string observed;
  std::string fix = {};
};
Finding pass(std::string observed);
Finding fail(std::string observed, std::string fix);
/// Fails with the findings; passes with `good` when there are none.
Finding fail_if(const std::vector<std::string>& findings, const std::string& good,
                const std::string& fix);

template <class... Inputs>
using Rule = std::pair<const char*, Finding (*)(const Inputs&...)>;

std::span<const Rule<RepositoryFacts>> repository_rules();
std::span<const Rule<nlohmann::json>> manifest_rules();
std::span<const Rule<nlohmann::json, std::string>> text_rules();

/// Without a profiler the text says why; with `required` that is not enough.
Finding absence_told(const nlohmann::json& manifest, const std::string& mr, bool required);
/// No fenced block of more than 60 lines.
Finding no_dumps(const std::string& mr);

}  // namespace fla::perf::evidence
