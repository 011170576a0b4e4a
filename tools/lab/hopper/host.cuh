// SPDX-License-Identifier: MIT
// Host side of the lab's GPU programs: errors, buffers, timing, what the device is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

#include "tools/lab/hopper/bits.h"

namespace fla::lab {

/// Ends the program when a call failed.
inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess)
    return;
  std::printf("%s: %s (%s)\n", what, cudaGetErrorName(error), cudaGetErrorString(error));
  std::exit(2);
}
/// Also what the kernels launched so far did.
inline void synchronize() {
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "kernel");
}

/// Device memory of the whole program; it ends with the process.
template <class T>
T* device_zeros(size_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
  check(cudaMemset(data, 0, count * sizeof(T)), "cudaMemset");
  return static_cast<T*>(data);
}
template <class T>
T* to_device(const std::vector<T>& host) {
  T* data = device_zeros<T>(host.size());
  check(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  return data;
}
template <class T>
std::vector<T> to_host(const T* data, size_t count) {
  std::vector<T> host(count);
  check(cudaMemcpy(host.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return host;
}

/// `count` bf16 or tf32 values in (-scale, scale), and the same as floats.
struct Values {
  std::vector<float> floats;
  std::vector<uint16_t> halves;  // empty for tf32
};
inline Values random_bf16(size_t count, uint64_t seed, float scale = 1.0F) {
  Values values;
  for (size_t i = 0; i < count; ++i) {
    values.halves.push_back(float_to_bf16(scale * uniform(i + seed)));
    values.floats.push_back(bf16_to_float(values.halves[i]));
  }
  return values;
}
inline Values random_tf32(size_t count, uint64_t seed) {
  Values values;
  for (size_t i = 0; i < count; ++i)
    values.floats.push_back(round_to_tf32(uniform(i + seed)));
  return values;
}

/// Milliseconds between two events on the default stream.
class Timer {
 public:
  Timer() {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  void start() { check(cudaEventRecord(begin_), "cudaEventRecord"); }
  double stop() {
    check(cudaEventRecord(end_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "kernel");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

/// Prints what the program runs on and returns the number of SMs. Ends it on anything but Hopper.
inline int print_device(const char* program) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  int device = 0, driver = 0, runtime = 0, khz = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, device), "cudaDeviceGetAttribute");
  std::printf("== %s on %s, sm_%d%d, %d SMs, at most %.0f MHz, L2 %.0f MB, CUDA %d (driver %d)\n",
              program, properties.name, properties.major, properties.minor,
              properties.multiProcessorCount, khz / 1e3, properties.l2CacheSize / 1048576.0,
              runtime, driver);
  if (properties.major != 9) {
    std::printf("needs compute capability 9.0\n");
    std::exit(2);
  }
  return properties.multiProcessorCount;
}

/// Allows the kernel its dynamic shared memory; prints its registers at entry if `name` is given.
template <class Kernel>
void allow_shared(Kernel* kernel, int bytes, const char* name = nullptr) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "cudaFuncSetAttribute");
  if (name == nullptr)
    return;
  cudaFuncAttributes attributes;
  check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
  std::printf("   %-34s %d registers at entry, %d B local, %d B shared\n", name, attributes.numRegs,
              static_cast<int>(attributes.localSizeBytes), bytes);
}

}  // namespace fla::lab
