// SPDX-License-Identifier: MIT
// Status and Result.
#include "fla/status.h"

#include <memory>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace fla {
namespace {

TEST(Status, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
}

TEST(Status, KeepsCodeAndMessage) {
  const Status status(Code::kWorkspaceTooSmall, "kda_fwd: workspace has 3 bytes, needs 4");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kWorkspaceTooSmall);
  EXPECT_EQ(status.message(), "kda_fwd: workspace has 3 bytes, needs 4");
}

TEST(Status, CodesHaveStableDistinctNames) {
  EXPECT_EQ(code_name(Code::kOk), "ok");
  EXPECT_EQ(code_name(Code::kInvalidArgument), "invalid_argument");
  EXPECT_EQ(code_name(Code::kUnsupported), "unsupported");
  std::set<std::string_view> names;
  for (int code = 0; code <= static_cast<int>(Code::kInternal); ++code) {
    EXPECT_TRUE(names.insert(code_name(static_cast<Code>(code))).second) << code;
  }
}

TEST(Result, HoldsAValueOrAStatus) {
  const Result<int> value(5);
  EXPECT_TRUE(value.ok());
  EXPECT_EQ(value.value(), 5);
  EXPECT_TRUE(value.status().ok());
  const Result<int> error(Status(Code::kIo, "cannot open x"));
  EXPECT_FALSE(error.ok());
  EXPECT_EQ(error.status().code(), Code::kIo);
}

TEST(Result, CarriesMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(3));
  const std::unique_ptr<int> taken = std::move(result.value());
  EXPECT_EQ(*taken, 3);
}

}  // namespace
}  // namespace fla
