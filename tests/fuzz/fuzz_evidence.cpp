// SPDX-License-Identifier: MIT
// Fuzzes what people and other machines hand to evidence: TOML files, plans, digest blocks.
#include <cstddef>
#include <cstdint>
#include <string>

#include "perf/evidence/config.h"
#include "perf/evidence/glob.h"
#include "perf/evidence/merge_request.h"
#include "perf/evidence/plan.h"

namespace {

template <class T>
void need_a_reason(const fla::Result<T>& result) {
  if (!result.ok() && result.status().message().empty()) {
    __builtin_trap();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace fla::perf::evidence;
  const std::string text(reinterpret_cast<const char*>(data), size);
  need_a_reason(parse_config("fla.toml", text));
  need_a_reason(parse_bench(text));
  need_a_reason(read_digest_block(text));
  need_a_reason(read_digest_block("<!-- fla-evidence " + text + " -->"));
  const auto plan = parse_plan("plan.json", text);
  need_a_reason(plan);
  if (plan.ok() && !parse_plan("plan.json", to_json(plan.value())).ok()) {
    __builtin_trap();
  }
  const auto human = parse_human("human.toml", text);
  need_a_reason(human);
  if (human.ok() && !parse_human("human.toml", to_toml(human.value())).ok()) {
    __builtin_trap();
  }
  if (size < 40) {  // the matcher backtracks
    glob_matches(text.substr(0, size / 2), text.substr(size / 2));
  }
  return 0;
}
