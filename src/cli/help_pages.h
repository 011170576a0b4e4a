// SPDX-License-Identifier: MIT
// The pages of docs/cli, embedded at build time.
#pragma once

#include <string_view>
#include <vector>

namespace fla::cli {

struct HelpPage {
  std::string_view name;  // "bench_ops"
  std::string_view text;
};

const std::vector<HelpPage>& help_pages();

}  // namespace fla::cli
