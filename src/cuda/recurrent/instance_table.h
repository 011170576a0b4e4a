// SPDX-License-Identifier: MIT
// The recurrent forward kernels that there are, as data that needs no CUDA: one row a kernel.
#pragma once

// ROW(id, update, keys, max_vec, threads): the function fwd_<id> is defined in inst/fwd_<id>.cu.
#define FLA_RECURRENT_INSTANCES(ROW)           \
  ROW(add_k32, Update::kAdd, 32, 4, 128)       \
  ROW(add_k64, Update::kAdd, 64, 4, 128)       \
  ROW(add_k128, Update::kAdd, 128, 2, 128)     \
  ROW(add_k256, Update::kAdd, 256, 1, 128)     \
  ROW(add_k512, Update::kAdd, 512, 1, 256)     \
  ROW(delta_k32, Update::kDelta, 32, 4, 128)   \
  ROW(delta_k64, Update::kDelta, 64, 4, 128)   \
  ROW(delta_k128, Update::kDelta, 128, 2, 128) \
  ROW(delta_k256, Update::kDelta, 256, 1, 128) \
  ROW(delta_k512, Update::kDelta, 512, 1, 256) \
  ROW(dplr_k32, Update::kDplr, 32, 4, 128)     \
  ROW(dplr_k64, Update::kDplr, 64, 4, 128)     \
  ROW(dplr_k128, Update::kDplr, 128, 2, 128)   \
  ROW(dplr_k256, Update::kDplr, 256, 1, 128)   \
  ROW(dplr_k512, Update::kDplr, 512, 1, 256)
