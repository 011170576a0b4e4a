// SPDX-License-Identifier: MIT
// The chunk kernels that there are, as data that needs no CUDA: one row an update, gate and width.
#pragma once

// ROW(rule, update, gate, vector_gate, keys): functions <kernel>_<rule>_<gate>_k<keys> in inst/,
// for the kernels prep, scan, reverse and gradient.
#define FLA_CHUNK_INSTANCES(ROW)                 \
  ROW(add, Update::kAdd, scalar, false, 64)      \
  ROW(add, Update::kAdd, scalar, false, 128)     \
  ROW(add, Update::kAdd, scalar, false, 256)     \
  ROW(add, Update::kAdd, vector, true, 64)       \
  ROW(add, Update::kAdd, vector, true, 128)      \
  ROW(add, Update::kAdd, vector, true, 256)      \
  ROW(delta, Update::kDelta, scalar, false, 64)  \
  ROW(delta, Update::kDelta, scalar, false, 128) \
  ROW(delta, Update::kDelta, scalar, false, 256) \
  ROW(delta, Update::kDelta, vector, true, 64)   \
  ROW(delta, Update::kDelta, vector, true, 128)  \
  ROW(delta, Update::kDelta, vector, true, 256)  \
  ROW(dplr, Update::kDplr, vector, true, 64)     \
  ROW(dplr, Update::kDplr, vector, true, 128)    \
  ROW(dplr, Update::kDplr, vector, true, 256)
