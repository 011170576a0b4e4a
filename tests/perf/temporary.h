// SPDX-License-Identifier: MIT
// A temporary folder, and a git repository in one.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "perf/host/git.h"

namespace fla::perf {

/// A folder that goes with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fla_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + '/' + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(path_ + '/' + name); }

 private:
  std::string path_;
};

/// A repository on branch main with an identity of its own and no commit.
class TemporaryRepository : public TemporaryFolder {
 public:
  TemporaryRepository() {
    git({"init", "-q", "-b", "main"});
    git({"config", "user.name", "t"});
    git({"config", "user.email", "t@localhost"});
  }
  std::string git(const std::vector<std::string>& args) const {
    const Result<std::string> out = host::git(path(), args);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? out.value() : "";
  }
  /// Commits everything; the commit's id.
  std::string commit(const std::string& message) const {
    git({"add", "-A"});
    git({"commit", "-q", "--allow-empty", "-m", message});
    return git({"rev-parse", "HEAD"});
  }
};

}  // namespace fla::perf
