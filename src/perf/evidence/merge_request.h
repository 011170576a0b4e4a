// SPDX-License-Identifier: MIT
// MR.md: the text to paste into a merge request, and the digest block that ties it to
// evidence.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "fla/status.h"

namespace fla::perf::evidence {

/// The text for a manifest (fla.evidence/1). Where a person owes a sentence it has a mark,
/// "[to fill: ...]", which the check finds.
std::string merge_request_text(const nlohmann::json& manifest);

/// The document inside the digest block of a text; none where there is no block. Errors: kIo for a
/// block that is damaged.
Result<std::optional<nlohmann::json>> read_digest_block(std::string_view text);

/// The digest of a manifest that the block carries: everything but what a person can still write.
std::string manifest_digest(const nlohmann::json& manifest);

inline constexpr std::string_view kToFill = "[to fill: ";

/// Labels that the check looks for, in the order of the text.
inline constexpr std::string_view kMandatoryFields[] = {"## Summary",
                                                        "Scope:",
                                                        "## Test plan",
                                                        "## Benchmark / NCU",
                                                        "Hardware:",
                                                        "Workload:",
                                                        "Commands:",
                                                        "Coverage:",
                                                        "Geometric mean:",
                                                        "Conclusion:",
                                                        "Regressed backends and shapes:",
                                                        "Risk:",
                                                        "Affected users:",
                                                        "Helper skill:",
                                                        "## Breaking changes"};
inline constexpr std::string_view kMetricFields[] = {"Memory throughput", "SOL", "Occupancy",
                                                     "Hot instructions"};

}  // namespace fla::perf::evidence
