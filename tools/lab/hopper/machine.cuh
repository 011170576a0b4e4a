// SPDX-License-Identifier: MIT
// What the kernels run on: Hopper's instructions under nvcc, an emulation of them under g++.
#pragma once

#ifdef __CUDACC__
#include "tools/lab/hopper/ptx.cuh"
#else
#include "tools/lab/hopper/emulator.h"
#endif
