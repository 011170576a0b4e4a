// SPDX-License-Identifier: MIT
// Without a sanitizer the C allocator is wrapped, which also sees operator new. A sanitizer owns
// the C allocator; there operator new alone is counted.
#include "support/allocation_counter.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> count{0};

}  // namespace

namespace fla::test {

int64_t allocations() {
  return count.load();
}

}  // namespace fla::test

#ifdef __SANITIZE_ADDRESS__

void* operator new(size_t bytes) {
  ++count;
  if (void* memory = std::malloc(bytes))
    return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

#else

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t number, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++count;
  return __libc_malloc(bytes);
}
void* calloc(size_t number, size_t bytes) {
  ++count;
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++count;
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
void* memalign(size_t alignment, size_t bytes) {
  ++count;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++count;
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#endif
