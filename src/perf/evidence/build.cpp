// SPDX-License-Identifier: MIT
// Worktrees, build recipes, machine code of kernels.
#include "perf/evidence/build.h"

#include <cstring>
#include <filesystem>

#include <elf.h>
#include <fmt/format.h>

#include "perf/evidence/block.h"
#include "perf/host/digest.h"
#include "perf/host/files.h"

namespace fla::perf::evidence {
namespace {
namespace fs = std::filesystem;

std::string from_status(const Status& status) {
  return std::string(status.message());
}

Outcome build_side(const Plan& plan, const std::string& side, const Folders& folders,
                   const SessionOptions& options) {
  const std::string& folder = folders.side(side);
  for (size_t i = 0; i < plan.build.size(); ++i) {
    const auto argv = host::split_words(plan.build[i]);
    if (!argv.ok()) {
      return {kUsage, "fla.toml: build: " + from_status(argv.status())};
    }
    const std::string log =
        fmt::format("{}/analysis/logs/build_{}_{}.log", folders.run, side, i + 1);
    host::Command command{.argv = argv.value(), .cwd = folder};
    // A compiler cache may serve both worktrees: their paths do not count.
    command.env = {{"CCACHE_BASEDIR", folder}, {"CCACHE_NOHASHDIR", "true"}};
    command.out_file = log;
    command.err_file = log;
    command.stop = options.stop;
    command.waiting = [&](double waited) {
      if (options.say && static_cast<int64_t>(waited) % 10 == 0) {
        options.say(fmt::format("building {}: {} ({:.0f} s)", side, plan.build[i], waited));
      }
    };
    if (options.say) {
      options.say(fmt::format("building {}: {}", side, plan.build[i]));
    }
    const Result<host::Finished> finished = host::run(command);
    if (!finished.ok()) {
      return {kWorkload, from_status(finished.status())};
    }
    if (finished.value().stopped) {
      return {kInterrupted, "interrupted while building"};
    }
    if (finished.value().status != 0) {
      return {kWorkload, fmt::format("{} does not build: '{}' ended with status {}; its output: {}",
                                     side, plan.build[i], finished.value().status, log)};
    }
  }
  return {};
}

/// Bytes of the section .nv_fatbin of an ELF file; empty where there is none.
std::string_view fatbin_section(std::string_view file) {
  Elf64_Ehdr header{};
  if (file.size() < sizeof header) {
    return {};
  }
  std::memcpy(&header, file.data(), sizeof header);
  const auto section_at = [&](size_t index) -> Elf64_Shdr {
    Elf64_Shdr section{};
    const size_t offset = header.e_shoff + index * sizeof section;
    if (offset <= file.size() && file.size() - offset >= sizeof section) {
      std::memcpy(&section, file.data() + offset, sizeof section);
    }
    return section;
  };
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return {};
  }
  const Elf64_Shdr names = section_at(header.e_shstrndx);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr section = section_at(i);
    const size_t name_at = names.sh_offset + section.sh_name;
    const bool inside =
        section.sh_offset <= file.size() && file.size() - section.sh_offset >= section.sh_size;
    if (inside && name_at < file.size() && file.substr(name_at).starts_with(".nv_fatbin") &&
        section.sh_type != SHT_NOBITS) {
      return file.substr(section.sh_offset, section.sh_size);
    }
  }
  return {};
}

}  // namespace

std::string worktree_folder(const std::string& cache_home, const std::string& repo,
                            const host::Tree& tree) {
  return fmt::format("{}/fla/wt/{}-{}/{}", cache_home, fs::path(repo).filename().string(),
                     host::sha256(repo).substr(0, 8), tree.tree);
}

Outcome make_worktrees(const std::string& repo, const Plan& plan, const Folders& folders) {
  for (const std::string_view side : kSides) {
    const std::string& folder = folders.side(side);
    Status status = host::make_folders(fs::path(folder).parent_path().string());
    if (status.ok()) {
      status = host::add_worktree(repo, tree_of(plan, side), folder);
    }
    if (!status.ok()) {
      return {kWorkload, from_status(status)};
    }
  }
  return {};
}

Outcome remove_worktrees(const std::string& repo, const Folders& folders) {
  for (const std::string_view side : kSides) {
    if (const Status status = host::remove_worktree(repo, folders.side(side)); !status.ok()) {
      return {kWorkload, from_status(status)};
    }
  }
  return {};
}

Outcome build_sides(const Plan& plan, const Folders& folders, const SessionOptions& options,
                    Journal* journal) {
  if (plan.build.empty()) {
    return {};
  }
  if (const Status status = host::make_folders(folders.run + "/analysis/logs"); !status.ok()) {
    return {kWorkload, from_status(status)};
  }
  for (const std::string side : {"base", "head"}) {
    const bool there = plan.binary.empty() || fs::exists(folders.side(side) + '/' + plan.binary);
    if (!runs(plan, side) || (journal->find("build/" + side) != nullptr && there)) {
      continue;
    }
    if (Outcome built = build_side(plan, side, folders, options); !built.ok()) {
      return built;
    }
    if (const Status status = journal->add("build/" + side, {{"commands", plan.build}});
        !status.ok()) {
      return {kWorkload, from_status(status)};
    }
  }
  return {};
}

std::map<std::string, std::string> digest_sass(std::string_view listing) {
  constexpr std::string_view kMark = "Function : ";
  std::map<std::string, std::string> kernels;
  size_t at = listing.find(kMark);
  while (at != std::string_view::npos) {
    const size_t name_at = at + kMark.size();
    const size_t line_end = std::min(listing.find('\n', name_at), listing.size());
    const size_t next = listing.find(kMark, line_end);
    const std::string name(listing.substr(name_at, line_end - name_at));
    std::string_view body = listing.substr(line_end, std::min(next, listing.size()) - line_end);
    // What follows the last instruction is the head of the next file of the fat binary.
    body = body.substr(0, body.rfind("*/") + 2);
    // One name in several architectures: all of them count.
    kernels[name] = host::sha256(kernels[name] + std::string(body));
    at = next;
  }
  return kernels;
}

DeviceCode read_device_code(const std::string& binary, const host::Environment& environment) {
  DeviceCode code;
  const Result<std::string> bytes = host::read_file(binary);
  const std::string_view fatbin = bytes.ok() ? fatbin_section(bytes.value()) : std::string_view();
  if (fatbin.empty()) {
    code.note = bytes.ok() ? "the binary holds no device code" : from_status(bytes.status());
    return code;
  }
  code.digest = host::sha256(fatbin);
  auto tool = host::find_program("cuobjdump", environment);
  if (!tool) {
    tool = host::find_program("/usr/local/cuda/bin/cuobjdump", environment);
  }
  if (!tool) {
    code.note = "cuobjdump is not here: the section .nv_fatbin as a whole";
    return code;
  }
  const Result<host::Finished> listing = host::run({.argv = {*tool, "-sass", binary}});
  if (!listing.ok() || !listing.value().ok()) {
    code.note = "cuobjdump failed: the section .nv_fatbin as a whole";
    return code;
  }
  code.kernels = digest_sass(listing.value().out);
  code.note = "SASS by cuobjdump";
  return code;
}

}  // namespace fla::perf::evidence
