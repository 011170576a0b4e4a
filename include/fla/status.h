// SPDX-License-Identifier: MIT
// Status and Result: how the library reports errors. It never prints, throws across its border, or
// exits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace fla {

enum class Code : int32_t {
  kOk = 0,
  kInvalidArgument = 1,    // a tensor, shape, stride, dtype or flag breaks the operator's contract
  kUnsupported = 2,        // a valid request that no kernel of the backend serves
  kWorkspaceTooSmall = 3,  // the caller's workspace is smaller than Plan::workspace_bytes()
  kNoDevice = 4,           // the backend needs a device that is not there
  kCuda = 5,               // the CUDA runtime or driver refused a call
  kIo = 6,                 // a file could not be read or written
  kInternal = 7,           // a defect of this library
};

/// The stable spelling of a code, for logs and tests ("invalid_argument").
std::string_view code_name(Code code);

/// Outcome of a call. Cheap when ok; otherwise one sentence with names and numbers, such as
/// "chunk_kda_fwd: beta has shape [1,8192,16], expected [B,T,HV] = [1,8192,32]".
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  std::string_view message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

/// A T, or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace fla
