// SPDX-License-Identifier: MIT
// The classes of cards by a table, the record through a fake NVML, and fla.hardware/1.
#include "perf/hardware/hardware.h"

#include <cstdlib>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/runtime/device.h"
#include "cuda/runtime/library.h"
#include "cuda/runtime/nvml.h"
#include "perf/hardware/hardware_json.h"

namespace fla::perf {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Card {
  const char* name;
  int cc;
  CardClass expected;
  const char* rule;
  const char* flag = nullptr;
  std::optional<int> brand = std::nullopt;
  std::optional<bool> ecc_supported = std::nullopt;
  std::optional<bool> display = std::nullopt;
  std::optional<int64_t> bus_bits = std::nullopt;
  bool mig = false;
  bool vgpu = false;
  std::optional<int64_t> mps_percent = std::nullopt;
};

constexpr CardClass kPreferred = CardClass::kPreferred;
constexpr CardClass kAccepted = CardClass::kAccepted;
constexpr CardClass kReference = CardClass::kReference;

const Card kCards[] = {
    {"NVIDIA B200", 100, kPreferred, "H7"},
    {"NVIDIA B100", 100, kPreferred, "H7"},
    {"NVIDIA GB200", 100, kPreferred, "H7"},
    {"NVIDIA B300 SXM6 AC", 103, kPreferred, "H7"},
    {"NVIDIA GB300", 103, kPreferred, "H7"},
    {"NVIDIA H100 80GB HBM3", 90, kAccepted, "H8"},
    {"NVIDIA H100 PCIe", 90, kAccepted, "H8"},
    {"NVIDIA H100 NVL", 90, kAccepted, "H8"},
    {"NVIDIA H800", 90, kAccepted, "H8"},
    {"NVIDIA H20", 90, kAccepted, "H8"},
    {"NVIDIA H20-3e", 90, kAccepted, "H8"},
    {"NVIDIA H200", 90, kAccepted, "H8"},
    {"NVIDIA H200 NVL", 90, kAccepted, "H8"},
    {"NVIDIA GH200 480GB", 90, kAccepted, "H8"},
    {"NVIDIA A100-SXM4-80GB", 80, kReference, "H2"},
    {"NVIDIA A100 80GB PCIe", 80, kReference, "H2"},
    {"NVIDIA A800-SXM4-80GB", 80, kReference, "H2"},
    {"NVIDIA A30", 80, kReference, "H2"},
    {"NVIDIA A10", 86, kReference, "H2"},
    {"NVIDIA A16", 86, kReference, "H2"},
    {"NVIDIA A40", 86, kReference, "H2"},
    {"NVIDIA A2", 86, kReference, "H2"},
    {"NVIDIA RTX A6000", 86, kReference, "H2"},
    {"NVIDIA GeForce RTX 3090", 86, kReference, "H2"},
    {"NVIDIA L4", 89, kReference, "H2"},
    {"NVIDIA L20", 89, kReference, "H2"},
    {"NVIDIA L40", 89, kReference, "H2"},
    {"NVIDIA L40S", 89, kReference, "H2"},
    {"NVIDIA GeForce RTX 4090", 89, kReference, "H2"},
    {"NVIDIA RTX 6000 Ada Generation", 89, kReference, "H2"},
    {"Tesla V100-SXM2-32GB", 70, kReference, "H2"},
    {"Tesla T4", 75, kReference, "H2"},
    {"Tesla P100-PCIE-16GB", 60, kReference, "H2"},
    {"Tesla K80", 37, kReference, "H2"},
    {"Orin", 87, kReference, "H2"},
    {"NVIDIA GeForce RTX 5090", 120, kReference, "H3"},
    {"NVIDIA RTX PRO 6000 Blackwell Server Edition", 120, kReference, "H3"},
    {"NVIDIA GB10", 121, kReference, "H3"},
    {"NVIDIA Thor", 110, kReference, "H4"},
    {"NVIDIA Thor", 101, kReference, "H4"},
    {"Jetson T5000", 110, kReference, "H4"},
    // A part of a card is not the card.
    {.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
     .cc = 90,
     .expected = kReference,
     .rule = "H5",
     .flag = "partial"},
    {.name = "NVIDIA B200",
     .cc = 100,
     .expected = kReference,
     .rule = "H5",
     .flag = "partial",
     .mig = true},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kReference,
     .rule = "H5",
     .flag = "partial",
     .vgpu = true},
    {.name = "GRID H100-20C", .cc = 90, .expected = kReference, .rule = "H5", .flag = "partial"},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kReference,
     .rule = "H5",
     .flag = "partial",
     .brand = 9},
    {.name = "NVIDIA H200",
     .cc = 90,
     .expected = kReference,
     .rule = "H5",
     .flag = "partial",
     .mps_percent = 50},
    {.name = "NVIDIA H200", .cc = 90, .expected = kAccepted, .rule = "H8", .mps_percent = 100},
    // By brand, by word, by what a datacenter card has.
    {.name = "Graphics Device", .cc = 90, .expected = kReference, .rule = "H6", .brand = 5},
    {.name = "NVIDIA Titan H", .cc = 90, .expected = kReference, .rule = "H6", .brand = 2},
    {.name = "NVIDIA GeForce RTX 4090", .cc = 90, .expected = kReference, .rule = "H6"},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kAccepted,
     .rule = "H8",
     .brand = 2,
     .ecc_supported = true,
     .display = false,
     .bus_bits = 5120},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kReference,
     .rule = "H10",
     .flag = "unknown",
     .ecc_supported = false},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kReference,
     .rule = "H10",
     .flag = "unknown",
     .display = true},
    {.name = "NVIDIA X1",
     .cc = 90,
     .expected = kReference,
     .rule = "H10",
     .flag = "unknown",
     .bus_bits = 384},
    {.name = "NVIDIA X1", .cc = 90, .expected = kAccepted, .rule = "H8", .bus_bits = 5120},
    {.name = "NVIDIA H100",
     .cc = 90,
     .expected = kReference,
     .rule = "H10",
     .flag = "unknown",
     .brand = 3},
    // Parts that no list names yet, and names that contradict the capability.
    {.name = "NVIDIA R100", .cc = 130, .expected = kAccepted, .rule = "H9", .flag = "unlisted"},
    {.name = "NVIDIA H200",
     .cc = 103,
     .expected = kPreferred,
     .rule = "H7",
     .flag = "name-mismatch"},
    {.name = "NVIDIA H100",
     .cc = 80,
     .expected = kReference,
     .rule = "H2",
     .flag = "name-mismatch"},
};

TEST(Hardware, ClassesByTheTable) {
  EXPECT_GE(std::size(kCards), 40U);
  for (const Card& row : kCards) {
    Hardware card;
    card.name = row.name;
    card.compute_capability = row.cc;
    card.brand = row.brand;
    card.ecc_supported = row.ecc_supported;
    card.display_active = row.display;
    card.bus_bits = row.bus_bits;
    card.mig = row.mig;
    card.vgpu = row.vgpu;
    card.mps_percent = row.mps_percent;
    classify(&card);
    const std::string what = to_text(card);
    EXPECT_EQ(card.card_class, row.expected) << what;
    EXPECT_EQ(card.rule, row.rule) << what;
    if (row.flag != nullptr) {
      EXPECT_THAT(card.flags, Contains(row.flag)) << what;
    } else {
      EXPECT_THAT(card.flags, IsEmpty()) << what;
    }
    EXPECT_THAT(what, StartsWith(std::string(card_class_name(row.expected)) + ' '));
  }
}

TEST(Hardware, EveryRuleIsInTheTable) {
  std::set<std::string> rules = {"H1"};
  for (const Card& row : kCards) {
    rules.insert(row.rule);
  }
  EXPECT_EQ(rules.size(), 10U);
}

TEST(Hardware, ReferenceCardsInAText) {
  EXPECT_THAT(reference_cards_in("5 % faster on H100, H20 and B200; T = 4096", ""), IsEmpty());
  EXPECT_THAT(reference_cards_in("as on the A100-SXM4, a GeForce RTX 5090 and one P40", ""),
              testing::UnorderedElementsAre("A100", "P40", "GeForce", "RTX"));
  EXPECT_THAT(reference_cards_in("the A100 is faster", "NVIDIA A100-SXM4-80GB"), IsEmpty());
}

TEST(Hardware, BrandsByNameAndNumber) {
  EXPECT_EQ(find_brand("GeForce"), 5);
  EXPECT_EQ(find_brand("geforce rtx"), 15);
  EXPECT_EQ(find_brand("Tesla"), 2);
  EXPECT_EQ(find_brand("14"), 14);
  EXPECT_EQ(find_brand("nvidia"), 14);
  EXPECT_FALSE(find_brand("17").has_value());
  EXPECT_FALSE(find_brand("Voodoo").has_value());
  EXPECT_FALSE(find_brand("").has_value());
}

/// The fake library's folder, unless this machine has a GPU of its own.
class FakeNvml : public testing::Test {
 protected:
  void SetUp() override {
    if (!cuda::devices().empty() || cuda::Library::open({"libnvidia-ml.so.1"}, "").ok()) {
      GTEST_SKIP() << "this machine has NVML";
    }
  }
  static Hardware read(const char* role) {
    setenv("FAKE_NVML", role, 1);
    return read_hardware(FLA_FAKE_NVML_DIR, std::nullopt);
  }
};

TEST_F(FakeNvml, GivesAWholeRecord) {
  const Hardware card = read("h200");
  EXPECT_EQ(card.card_class, kAccepted);
  EXPECT_EQ(card.rule, "H8");
  EXPECT_EQ(card.name, "NVIDIA H200");
  EXPECT_EQ(card.compute_capability, 90);
  EXPECT_EQ(card.brand, 14);
  EXPECT_EQ(card.ecc_supported, true);
  EXPECT_EQ(card.ecc, true);
  EXPECT_FALSE(card.mig);
  EXPECT_FALSE(card.vgpu);
  EXPECT_EQ(card.display_active, false);
  EXPECT_EQ(card.persistence, true);
  EXPECT_EQ(card.memory_bytes, 150754820096);
  EXPECT_EQ(card.bus_bits, 6144);
  EXPECT_EQ(card.max_sm_mhz, 1980);
  EXPECT_EQ(card.max_memory_mhz, 3201);
  EXPECT_EQ(card.power_limit_w, 700);
  EXPECT_EQ(card.uuid, "GPU-00000000-1111-2222-3333-444444444444");
  EXPECT_EQ(card.driver, "580.159.04");
  EXPECT_EQ(card.vbios, "96.00.BC.00.01");
  EXPECT_EQ(card.other_processes, 1);
  EXPECT_FALSE(card.boot_id.empty());
  EXPECT_THAT(to_text(card), HasSubstr("1 other process on the card"));
}

TEST_F(FakeNvml, MigIsAPart) {
  EXPECT_EQ(read("mig").rule, "H5");
}

TEST_F(FakeNvml, WhatItRefusesIsUnknown) {
  const Hardware card = read("refuses");
  EXPECT_EQ(card.name, "NVIDIA H200");
  EXPECT_FALSE(card.ecc.has_value());
  EXPECT_EQ(card.ecc_supported, false);
  EXPECT_FALSE(card.power_limit_w.has_value());
  EXPECT_FALSE(card.display_active.has_value());
  EXPECT_EQ(card.rule, "H10");
}

TEST_F(FakeNvml, NoCardIsNone) {
  const Hardware none = read("none");
  EXPECT_EQ(none.card_class, CardClass::kNone);
  EXPECT_THAT(to_text(none), StartsWith("none "));
  EXPECT_THAT(none.reason, HasSubstr("finds no NVIDIA device"));
  EXPECT_THAT(read("broken").reason, HasSubstr("cannot be initialised"));
  EXPECT_THAT(read_hardware("", std::nullopt).reason, HasSubstr("not found"));
}

TEST(HardwareJson, SurvivesARoundTrip) {
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.num_sms = 132;
  card.power_limit_w = 700;
  card.ecc = true;
  card.ecc_supported = true;
  card.uuid = "GPU-1";
  card.other_processes = 2;
  classify(&card);
  const auto json = nlohmann::json::parse(hardware_json(card).dump());
  const Result<Hardware> read = hardware_from_json(json);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(hardware_json(read.value()).dump(), hardware_json(card).dump());
  EXPECT_EQ(read.value().card_class, kAccepted);
}

TEST(HardwareJson, ALoweredClassStaysLowered) {
  Hardware card;
  card.name = "NVIDIA H200";
  card.compute_capability = 90;
  card.at_most = CardClass::kReference;
  classify(&card);
  EXPECT_EQ(card.card_class, CardClass::kReference);
  EXPECT_EQ(card.rule, "H8");
  EXPECT_THAT(card.flags, testing::ElementsAre("lowered"));
  const auto json = nlohmann::json::parse(hardware_json(card).dump());
  EXPECT_EQ(hardware_from_json(json).value().card_class, CardClass::kReference);
  card.at_most = CardClass::kPreferred;
  classify(&card);
  EXPECT_EQ(card.card_class, kAccepted);
  EXPECT_THAT(card.flags, IsEmpty());
}

TEST(HardwareJson, TheIdFollowsTheModelAlone) {
  Hardware card;
  card.name = "NVIDIA H200";
  const std::string id = card.id();
  EXPECT_EQ(id.size(), 3U + 64U);
  card.uuid = "GPU-1";
  card.driver = "580";
  EXPECT_EQ(card.id(), id);
  card.power_limit_w = 500;
  EXPECT_NE(card.id(), id);
}

TEST(HardwareJson, RefusesOtherDocuments) {
  const auto read = [](const char* text) {
    return hardware_from_json(nlohmann::json::parse(text)).status();
  };
  EXPECT_THAT(std::string(read("[]").message()), HasSubstr("fla.hardware/1"));
  EXPECT_THAT(std::string(read(R"({"schema":"fla.hardware/2"})").message()),
              HasSubstr("fla.hardware/1"));
  EXPECT_THAT(
      std::string(
          read(R"({"schema":"fla.hardware/1","model":{"name":3},"instance":{}})").message()),
      HasSubstr("'name' has the wrong type"));
  EXPECT_THAT(std::string(read(R"({"schema":"fla.hardware/1","model":{}})").message()),
              HasSubstr("'instance'"));
}

}  // namespace
}  // namespace fla::perf
