// SPDX-License-Identifier: MIT
// What is known about the machine that measures: processor, caches, free memory.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fla::perf {

struct Machine {
  std::string cpu_model;    // "unknown" where the system does not say
  int cores = 0;            // physical; 0: unknown
  int threads = 0;          // logical ones that this process may use
  int64_t cache_bytes = 0;  // last-level cache; 0: unknown
};

Machine read_machine();

/// Memory that a new buffer may take without swapping; 0 where the system does not say.
int64_t available_bytes();

/// The processor's name out of /proc/cpuinfo text.
std::string parse_cpu_model(std::string_view cpuinfo);
/// "32768K" or "32M" in bytes; 0 for anything else.
int64_t parse_cache_size(std::string_view text);

}  // namespace fla::perf
