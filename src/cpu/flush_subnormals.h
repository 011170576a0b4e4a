// SPDX-License-Identifier: MIT
// FlushSubnormals: the floating mode of the CPU backend's threads.
#pragma once

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace fla::cpu {

/// Subnormals are zeros inside (decays reach them all the time, and they cost a hundred cycles
/// each); the caller's mode comes back.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() : saved_(_mm_getcsr()) {
    _mm_setcsr(saved_ | 0x8040U);
  }
  ~FlushSubnormals() {
    _mm_setcsr(saved_);
  }
#else
  FlushSubnormals() = default;
  ~FlushSubnormals() = default;
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  unsigned saved_;
#endif
};

}  // namespace fla::cpu
