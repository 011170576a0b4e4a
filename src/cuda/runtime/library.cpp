// SPDX-License-Identifier: MIT
// Shared libraries that are found at run time and never linked.
#include "cuda/runtime/library.h"

#include <utility>

#include <dlfcn.h>

namespace fla::cuda {

Result<Library> Library::open(const std::vector<std::string>& names, const std::string& folder) {
  std::vector<std::string> prefixes = {"", "/usr/local/cuda/lib64/"};
  if (!folder.empty())
    prefixes.push_back(folder + "/");
  for (const std::string& prefix : prefixes) {
    for (const std::string& name : names) {
      if (void* handle = dlopen((prefix + name).c_str(), RTLD_NOW | RTLD_LOCAL))
        return Library(handle);
    }
  }
  std::string tried;
  for (const std::string& name : names)
    tried += (tried.empty() ? "" : ", ") + name;
  return Status(Code::kIo, tried + " not found (searched: the loader's folders, " +
                               "/usr/local/cuda/lib64" +
                               (folder.empty() ? std::string() : ", " + folder) + ")");
}

Library::~Library() {
  if (handle_ != nullptr)
    dlclose(handle_);
}

Library::Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

void* Library::symbol(const char* name) const {
  return dlsym(handle_, name);
}

}  // namespace fla::cuda
