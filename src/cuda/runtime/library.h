// SPDX-License-Identifier: MIT
// Shared libraries that are found at run time and never linked.
#pragma once

#include <string>
#include <vector>

#include "fla/status.h"

namespace fla::cuda {

/// An open shared library. Move-only.
class Library {
 public:
  /// The first of `names` that opens: by the loader's own search, then in /usr/local/cuda/lib64,
  /// then in `folder` ("": nowhere). Errors: kIo naming them.
  static Result<Library> open(const std::vector<std::string>& names, const std::string& folder);
  ~Library();
  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;

  /// Null when the library has no such function.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

  /// Keeps the library in the process when this object goes; it has no functions from then on.
  void leave_open() { handle_ = nullptr; }

 private:
  explicit Library(void* handle) : handle_(handle) {}
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
};

}  // namespace fla::cuda
