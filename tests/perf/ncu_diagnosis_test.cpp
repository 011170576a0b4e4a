// SPDX-License-Identifier: MIT
// Each rule of the diagnosis fires at its threshold, carries its numbers, and stays silent below.
#include <algorithm>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "perf/ncu/diagnosis.h"

namespace fla::perf::ncu {
namespace {

using testing::HasSubstr;

/// A kernel about which no rule has anything to say.
Symptoms healthy() {
  Symptoms s;
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, double>>{{"grid", 1056},
                                                             {"sms", 132},
                                                             {"waves", 8},
                                                             {"occ_limit_registers", 2},
                                                             {"occ_limit_warps", 1},
                                                             {"issue", 0.9},
                                                             {"occ_theory", 100},
                                                             {"occ_achieved", 95},
                                                             {"sectors_ld", 100},
                                                             {"sectors_st", 100},
                                                             {"threads_per_inst", 32}}) {
    s.metrics.found[key].value = value;
  }
  return s;
}

void set(Symptoms* s, const char* key, double value) {
  s->metrics.found[key].value = value;
}

Symptoms with(std::initializer_list<std::pair<const char*, double>> values) {
  Symptoms s = healthy();
  for (const auto& [key, value] : values) {
    set(&s, key, value);
  }
  return s;
}

const Finding* find(const std::vector<Finding>& findings, const std::string& id) {
  const auto at = std::find_if(findings.begin(), findings.end(),
                               [&](const Finding& one) { return one.id == id; });
  return at != findings.end() ? &*at : nullptr;
}

/// The finding of one rule; its text and numbers must be there.
std::optional<Finding> fires(const std::string& id, const Symptoms& symptoms) {
  const std::vector<Finding> findings = diagnose(symptoms);
  const Finding* finding = find(findings, id);
  if (finding == nullptr) {
    return std::nullopt;
  }
  EXPECT_FALSE(finding->title.empty());
  EXPECT_FALSE(finding->text.empty());
  EXPECT_FALSE(finding->numbers.empty());
  return *finding;
}

double number(const Finding& finding, const std::string& name) {
  for (const Number& one : finding.numbers) {
    if (one.name == name) {
      return one.value;
    }
  }
  ADD_FAILURE() << finding.id << " has no number " << name;
  return -1;
}

RuleHint hint(const std::string& rule) {
  RuleHint hint;
  hint.rule = rule;
  return hint;
}

TEST(Diagnosis, NothingToSay) {
  EXPECT_TRUE(diagnose(healthy()).empty());
  EXPECT_TRUE(diagnose({}).empty()) << "missing numbers fire nothing";
}

TEST(Diagnosis, D1MemoryBound) {
  const auto l2 = fires(
      "D1", with({{"memory_sol", 70}, {"compute_sol", 60}, {"dram_pct", 59}, {"l2_pct", 70}}));
  ASSERT_TRUE(l2);
  EXPECT_EQ(l2->title, "L2-bound");
  EXPECT_EQ(number(*l2, "L2"), 70);
  const auto dram = fires("D1", with({{"memory_sol", 85}, {"compute_sol", 20}, {"dram_pct", 80}}));
  EXPECT_EQ(dram->title, "DRAM-bound");
  EXPECT_THAT(dram->text, HasSubstr("near its ceiling"));
  EXPECT_FALSE(fires("D1", with({{"memory_sol", 59.9}, {"compute_sol", 20}})));
  EXPECT_FALSE(fires("D1", with({{"memory_sol", 69}, {"compute_sol", 60}})));
}

TEST(Diagnosis, D2ComputeBound) {
  const auto finding =
      fires("D2", with({{"memory_sol", 30}, {"compute_sol", 75}, {"tensor_pct", 75}}));
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->text, HasSubstr("tensor pipe, is heavily used"));
  EXPECT_FALSE(fires("D2", with({{"memory_sol", 66}, {"compute_sol", 75}})));
}

TEST(Diagnosis, D3Balanced) {
  EXPECT_TRUE(fires("D3", with({{"memory_sol", 61}, {"compute_sol", 55}})));
  EXPECT_FALSE(fires("D3", with({{"memory_sol", 59}, {"compute_sol", 55}})));
}

TEST(Diagnosis, D4LatencyBound) {
  Symptoms s = with({{"memory_sol", 30}, {"compute_sol", 40}, {"issue", 0.4}});
  s.stalls.aggregate = {{"selected", 1, 0.1}, {"barrier", 5, 0.25}};
  const auto finding = fires("D4", s);
  ASSERT_TRUE(finding);
  EXPECT_EQ(number(*finding, "issue slots in use"), 40);
  EXPECT_EQ(number(*finding, "stall barrier"), 25);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  set(&s, "eligible", 1.2);
  EXPECT_EQ(fires("D4", s)->severity, Severity::kNote) << "a warp is ready: weaker";
}

TEST(Diagnosis, D5SmallGrid) {
  EXPECT_TRUE(fires("D5", with({{"memory_sol", 30}, {"compute_sol", 40}, {"waves", 0.5}})));
  EXPECT_FALSE(fires("D5", with({{"memory_sol", 70}, {"compute_sol", 40}, {"waves", 0.5}})));
}

TEST(Diagnosis, D6Tail) {
  const auto wave = fires("D6", with({{"waves", 1.25}}));
  ASSERT_TRUE(wave);
  EXPECT_EQ(number(*wave, "fill of the last wave"), 25);
  EXPECT_FALSE(fires("D6", with({{"waves", 1.75}})));
  EXPECT_FALSE(fires("D6", with({{"waves", 4.25}})));
  EXPECT_TRUE(fires("D6", with({{"sm_cycles_avg", 100}, {"sm_cycles_max", 121}})));
  Symptoms s = healthy();
  s.timeline.series = {{"SM active", "", std::vector<double>(40, 100)}};
  std::fill(s.timeline.series[0].values.end() - 4, s.timeline.series[0].values.end(), 40);
  EXPECT_EQ(number(*fires("D6", s), "last tenth over the plateau"), 40);
}

TEST(Diagnosis, D7OccupancyGap) {
  EXPECT_TRUE(fires("D7", with({{"occ_theory", 50}, {"occ_achieved", 39}})));
  EXPECT_FALSE(fires("D7", with({{"occ_theory", 50}, {"occ_achieved", 40}})));
}

TEST(Diagnosis, D8OccupancyLimited) {
  const auto low = {std::pair<const char*, double>{"occ_theory", 25},
                    {"memory_sol", 30},
                    {"compute_sol", 30},
                    {"occ_limit_registers", 1}};
  const auto finding = fires("D8", with(low));
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->title, "occupancy limited by registers");
  Symptoms busy = with(low);
  set(&busy, "memory_sol", 90);
  EXPECT_FALSE(fires("D8", busy)) << "not latency-bound";
  Symptoms warps = with(low);
  set(&warps, "occ_limit_registers", 4);
  EXPECT_FALSE(fires("D8", warps)) << "warps are the limit";
}

TEST(Diagnosis, D9Stalls) {
  Symptoms s = with({{"issue", 0.5}});
  s.stalls.aggregate = {{"long_scoreboard", 3, 0.31}};
  EXPECT_EQ(fires("D9", s)->title, "stalled on long_scoreboard");
  set(&s, "issue", 0.8);
  EXPECT_FALSE(fires("D9", s));
  s.stalls.sampled = {{"barrier", 21, 0.21}, {"selected", 79, 0.79}};
  EXPECT_EQ(number(*fires("D9", s), "barrier, of samples"), 21);
  s.stalls.sampled = {{"wait", 91, 0.91}, {"selected", 9, 0.09}};
  EXPECT_EQ(number(*fires("D9", s), "warps that issue, of samples"), 9);
}

TEST(Diagnosis, D9WaitAtMatrixInstructionsIsNormal) {
  Symptoms s = with({{"issue", 0.5}, {"tensor_pct", 70}});
  s.stalls.aggregate = {{"wait", 3, 0.5}};
  EXPECT_THAT(fires("D9", s)->overruled_by, HasSubstr("normal"));
}

TEST(Diagnosis, D10Uncoalesced) {
  EXPECT_EQ(number(*fires("D10", with({{"excess_sectors", 50}})), "excess sectors"), 25);
  EXPECT_FALSE(fires("D10", with({{"excess_sectors", 20}}))) << "exactly 10 %";
  EXPECT_EQ(fires("D10", with({{"sectors_per_req_ld", 6}}))->severity, Severity::kWarning);
  EXPECT_EQ(fires("D10", with({{"sectors_per_req_ld", 9}}))->severity, Severity::kBad);
  EXPECT_FALSE(fires("D10", with({{"sectors_per_req_ld", 16}, {"bytes_per_sector_ld", 32}})))
      << "16-byte loads take 16 whole sectors";
  EXPECT_TRUE(fires("D10", with({{"bytes_per_sector_st", 8}})));
  EXPECT_FALSE(fires("D10", with({{"excess_sectors", 50}, {"tma_ld", 200 * 32 * 10}})))
      << "loads and stores are under a tenth of the traffic";
}

TEST(Diagnosis, D10MutedWhenFedByTma) {
  const auto finding = fires("D10", with({{"excess_sectors", 50}, {"tma_ld", 200 * 32 * 2}}));
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->overruled_by, HasSubstr("TMA"));
}

TEST(Diagnosis, D11BankConflicts) {
  EXPECT_EQ(number(*fires("D11", with({{"bank_conf_st", 0.5}})), "conflicts a wavefront, st"), 50);
  EXPECT_FALSE(fires("D11", with({{"bank_conf_st", 0.1}})));
  EXPECT_TRUE(fires("D11", with({{"wavefronts", 100}, {"excess_wavefronts", 11}})));
}

TEST(Diagnosis, D12Spills) {
  EXPECT_EQ(fires("D12", with({{"spill_inst", 1}, {"instructions", 1000}}))->severity,
            Severity::kWarning);
  EXPECT_EQ(fires("D12", with({{"spill_inst", 21}, {"instructions", 1000}}))->title,
            "costly register spills");
  EXPECT_EQ(fires("D12", with({{"spill_inst", 1},
                               {"instructions", 1000},
                               {"local_sectors", 10},
                               {"local_misses", 3}}))
                ->severity,
            Severity::kBad);
  EXPECT_FALSE(fires("D12", with({{"spill_inst", 0}})));
}

TEST(Diagnosis, D13TensorIdle) {
  Symptoms s = with({{"tensor_pct", 0.5}});
  EXPECT_FALSE(fires("D13", s)) << "no model says that there are matrix products";
  s.model.matrix_products = true;
  EXPECT_TRUE(fires("D13", s));
  set(&s, "tensor_pct", 1);
  EXPECT_FALSE(fires("D13", s));
}

TEST(Diagnosis, D14Divergence) {
  EXPECT_TRUE(fires("D14", with({{"threads_per_inst", 23.9}})));
  EXPECT_FALSE(fires("D14", with({{"threads_per_inst", 24}})));
}

TEST(Diagnosis, D15StrayFp64) {
  Symptoms s = with({{"fp64_pct", 0.1}});
  EXPECT_TRUE(fires("D15", s));
  s.model.dtype = "fp64";
  EXPECT_FALSE(fires("D15", s));
}

TEST(Diagnosis, D16SpecialFunctions) {
  EXPECT_TRUE(fires("D16", with({{"xu_pct", 60}})));
  EXPECT_FALSE(fires("D16", with({{"xu_pct", 59}})));
}

TEST(Diagnosis, D17Traffic) {
  Symptoms s = with({{"dram_bytes", 1310}});
  EXPECT_FALSE(fires("D17", s)) << "no model";
  s.model.min_bytes = 1000;
  EXPECT_EQ(fires("D17", s)->title, "traffic excess");
  set(&s, "dram_bytes", 1200);
  EXPECT_FALSE(fires("D17", s));
  set(&s, "dram_bytes", 800);
  EXPECT_EQ(fires("D17", s)->severity, Severity::kNote);
}

TEST(Diagnosis, PersistentKernelsAreMeantToBe) {
  Symptoms s = with({{"grid", 132},
                     {"waves", 0.5},
                     {"memory_sol", 30},
                     {"compute_sol", 40},
                     {"occ_theory", 12.5},
                     {"occ_achieved", 2},
                     {"occ_limit_registers", 1},
                     {"tma_ld", 1e6}});
  for (const char* id : {"D5", "D7", "D8"}) {
    EXPECT_THAT(fires(id, s)->overruled_by, HasSubstr("by design")) << id;
  }
  const std::vector<Finding> findings = diagnose(s);
  EXPECT_TRUE(findings.front().overruled_by.empty());
  EXPECT_FALSE(findings.back().overruled_by.empty()) << "overruled ones come last";
  EXPECT_THAT(overrule_hint(hint("IssueSlotUtilization"), s.metrics), HasSubstr("by design"));
  EXPECT_EQ(overrule_hint(hint("SOLBottleneck"), s.metrics), "");
  set(&s, "tma_ld", 0);
  EXPECT_EQ(fires("D5", s)->overruled_by, "") << "no wgmma, tcgen05 or TMA: not persistent";
}

TEST(Diagnosis, TiesOfTheLimiterAreListed) {
  const Limiter limiter = occupancy_limiter(
      with({{"occ_limit_registers", 1}, {"occ_limit_shared_mem", 1}, {"occ_limit_warps", 1}})
          .metrics);
  EXPECT_THAT(limiter.resources, testing::ElementsAre("registers", "shared_mem", "warps"));
  EXPECT_EQ(limiter.blocks, 1);
}

TEST(Diagnosis, RealExport) {
  std::ifstream file(std::string(FLA_FIXTURES) + "/ncu/raw.csv", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto launches = parse_raw_page("raw.csv", text);
  ASSERT_TRUE(launches.ok());
  Symptoms s;
  s.metrics = resolve_metrics(launches.value()[0]);
  s.stalls = read_stalls(launches.value()[0]);
  s.model.min_bytes = 3.0 * 4 * (1 << 28);
  const std::vector<Finding> findings = diagnose(s);
  ASSERT_NE(find(findings, "D1"), nullptr);
  EXPECT_EQ(find(findings, "D1")->title, "DRAM-bound");
  ASSERT_NE(find(findings, "D9"), nullptr);
  EXPECT_EQ(find(findings, "D17"), nullptr) << "3.2 GB moved, 3.2 GB needed";
  EXPECT_EQ(findings.size(), 2u);
}

}  // namespace
}  // namespace fla::perf::ncu
