// SPDX-License-Identifier: MIT
// One function an operator: its registry row, each defined in the file of the operator's name.
#pragma once

#include "ops/registry.h"

namespace fla::ops {

OpRow linear_attn_row();
OpRow retention_row();
OpRow lightning_attn_row();
OpRow simple_gla_row();
OpRow ssd_row();
OpRow gla_row();
OpRow rwkv6_row();
OpRow hgrn_row();
OpRow hgrn2_row();
OpRow gsa_row();
OpRow delta_rule_row();
OpRow gdn_row();
OpRow kda_row();
OpRow gdn2_row();
OpRow comba_row();
OpRow gated_delta_product_row();
OpRow dplr_delta_rule_row();
OpRow iplr_delta_rule_row();
OpRow rwkv7_row();
OpRow precond_gdn_row();
OpRow precond_kda_row();

}  // namespace fla::ops
