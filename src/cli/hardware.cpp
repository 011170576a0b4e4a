// SPDX-License-Identifier: MIT
// `fla hardware`: what the GPU's numbers may be used for.
#include "cli/hardware.h"

#include <charconv>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "perf/evidence/config.h"
#include "perf/hardware/hardware_json.h"
#include "perf/host/git.h"
#include "perf/host/process.h"
#include "perf/write_file.h"

namespace fla::cli {
namespace {

struct HardwareOptions {
  std::string json;
  std::string lib_dir;
  std::string what_if;
  std::string capability;
  std::string brand;
  std::optional<int64_t> bus_bits;
  std::optional<bool> ecc;
  std::optional<bool> display;
  bool mig = false;
  bool vgpu = false;
};

void declare(CLI::App* app, HardwareOptions* options) {
  app->add_option("--json", options->json,
                  "The record as fla.hardware/1 to a file, or to stdout with -");
  app->add_option("--lib-dir", options->lib_dir, "Folder that may hold libnvidia-ml");
  CLI::Option* const what_if =
      app->add_option("--what-if", options->what_if, "Classify the card of this name instead");
  CLI::Option* const capability = app->add_option(
      "--cc", options->capability, "Its compute capability, such as 9.0 (required with --what-if)");
  what_if->needs(capability);
  for (CLI::Option* option :
       {capability, app->add_option("--brand", options->brand, "Its brand (default: by its name)"),
        app->add_option("--bus-bits", options->bus_bits, "Width of its memory bus"),
        app->add_option("--ecc", options->ecc, "Whether it has ECC: true or false"),
        app->add_option("--display", options->display, "Whether a display is active on it"),
        app->add_flag("--mig", options->mig, "It is a MIG slice"),
        app->add_flag("--vgpu", options->vgpu, "It is a vGPU")}) {
    option->needs(what_if);
  }
}

/// 90 of "9.0".
std::optional<int> parse_capability(std::string_view text) {
  int major = 0;
  int minor = 0;
  const char* const end = text.data() + text.size();
  const auto [point, error] = std::from_chars(text.data(), end, major);
  if (error != std::errc() || point == end || *point != '.' || major < 1 || major > 99) {
    return std::nullopt;
  }
  const auto [rest, minor_error] = std::from_chars(point + 1, end, minor);
  if (minor_error != std::errc() || rest != end || minor < 0 || minor > 9) {
    return std::nullopt;
  }
  return 10 * major + minor;
}

/// The card that the options describe; what they leave out is unknown.
Result<perf::Hardware> described(const HardwareOptions& options) {
  const std::optional<int> capability = parse_capability(options.capability);
  if (!capability) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--cc '{}', expected MAJOR.MINOR such as 9.0", options.capability));
  }
  perf::Hardware card;
  if (!options.brand.empty()) {
    card.brand = perf::find_brand(options.brand);
    if (!card.brand) {
      return Status(Code::kInvalidArgument,
                    fmt::format("--brand '{}', expected NVML's name of a brand (NVIDIA, Tesla, "
                                "GeForce, Titan, Quadro, GRID, ...) or its number",
                                options.brand));
    }
  }
  card.name = options.what_if;
  card.compute_capability = *capability;
  card.bus_bits = options.bus_bits;
  card.ecc_supported = options.ecc;
  card.display_active = options.display;
  card.mig = options.mig;
  card.vgpu = options.vgpu;
  perf::classify(&card);
  return card;
}

/// The share of the threads that MPS leaves to this process.
std::optional<int64_t> mps_percent() {
  const perf::host::Environment environment = perf::host::read_environment();
  const auto found = environment.find("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  int64_t percent = 0;
  if (found == environment.end() ||
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), percent)
              .ec != std::errc()) {
    return std::nullopt;
  }
  return percent;
}

}  // namespace

perf::Hardware this_hardware(const std::string& lib_dir) {
  return perf::read_hardware(lib_dir, mps_percent());
}

int hardware(const Arguments& arguments) {
  HardwareOptions options;
  CLI::App app("What this GPU's numbers may be used for (fla help hardware)", "fla hardware");
  declare(&app, &options);
  if (const std::optional<int> status = parse(&app, arguments)) {
    return *status;
  }
  const Result<perf::Hardware> found =
      options.what_if.empty() ? this_hardware(options.lib_dir) : described(options);
  if (!found.ok()) {
    return fail(kUsage, found.status().message());
  }
  perf::Hardware card = found.value();
  if (const Result<std::string> repo = perf::host::top_level("."); repo.ok()) {
    const auto config = perf::evidence::load_config(repo.value());
    if (!config.ok()) {
      return fail(kUnreadable, config.status().message());
    }
    perf::evidence::limit_class(config.value().hardware, &card);
  }
  if (!print(perf::to_text(card), options.json == "-")) {
    return fail(kWorkload, "cannot write to stdout");
  }
  if (!options.json.empty()) {
    const int written = write_output(options.json, perf::hardware_json(card).dump(2) + '\n');
    if (written != kDone) {
      return written;
    }
  }
  switch (card.card_class) {
    case perf::CardClass::kNone:
      return kEnvironment;
    case perf::CardClass::kReference:
      return kNegative;
    default:
      return kDone;
  }
}

}  // namespace fla::cli
