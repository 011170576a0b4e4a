// SPDX-License-Identifier: MIT
// The class of a card, by its compute capability first and its name second.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "perf/hardware/hardware.h"

namespace fla::perf {
namespace {

constexpr std::array<std::string_view, 17> kBrands = {
    "unknown",   "Quadro",    "Tesla",  "NVS",        "GRID",    "GeForce",
    "Titan",     "vApps",     "vPC",    "vCS",        "vWS",     "CloudGaming",
    "QuadroRTX", "NvidiaRTX", "NVIDIA", "GeForceRTX", "TitanRTX"};
constexpr int kQuadro = 1;
constexpr int kTesla = 2;
constexpr int kGrid = 4;
constexpr int kGeForce = 5;
constexpr int kTitan = 6;
constexpr int kFirstVirtual = 7;
constexpr int kLastVirtual = 11;
constexpr int kNvidiaRtx = 13;
constexpr int kNvidia = 14;
constexpr std::array kConsumerBrands = {kQuadro, kGeForce, kTitan, 12, kNvidiaRtx, 15, 16};

/// Words of product names and the compute capability of the cards that carry them.
struct KnownCard {
  std::string_view word;
  int compute_capability;
};
constexpr KnownCard kKnownCards[] = {
    {"GB300", 103}, {"B300", 103}, {"GB200", 100}, {"B200", 100}, {"B100", 100}, {"GH200", 90},
    {"H200", 90},   {"H100", 90},  {"H800", 90},   {"H20", 90},   {"A100", 80},  {"A800", 80},
    {"A30", 80},    {"A10", 86},   {"A16", 86},    {"A40", 86},   {"A2", 86},    {"L4", 89},
    {"L20", 89},    {"L40", 89},   {"L40S", 89},   {"T4", 75},    {"V100", 70},  {"P100", 60},
    {"P40", 61},    {"K80", 37},   {"GB10", 121},  {"Orin", 87}};
constexpr std::string_view kEmbeddedWords[] = {"Thor", "Jetson", "DRIVE", "Orin", "GB10", "Spark"};
constexpr std::string_view kConsumerWords[] = {"GeForce", "Titan", "Quadro", "RTX"};
constexpr int64_t kDatacenterBusBits = 2048;

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

bool has_word(std::string_view text, std::string_view word) {
  const auto is_part = [](unsigned char c) { return std::isalnum(c) != 0; };
  for (auto at = text.begin(); at != text.end();) {
    const auto begin = std::find_if(at, text.end(), is_part);
    const auto end = std::find_if_not(begin, text.end(), is_part);
    if (begin != end && same_word({begin, end}, word)) {
      return true;
    }
    at = end;
  }
  return false;
}

template <class Words>
bool has_any_word(std::string_view text, const Words& words) {
  return std::any_of(std::begin(words), std::end(words),
                     [&](std::string_view word) { return has_word(text, word); });
}

const KnownCard* find_known(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kKnownCards), std::end(kKnownCards),
                   [&](const KnownCard& card) { return has_word(name, card.word); });
  return found == std::end(kKnownCards) ? nullptr : found;
}

bool is_embedded(const Hardware& card) {
  const int cc = card.compute_capability;
  return cc == 101 || cc / 10 == 11 || card.integrated || has_any_word(card.name, kEmbeddedWords);
}

/// Which part of a card this is; empty: all of it.
std::string part_of_card(const Hardware& card, int brand) {
  if (card.mig || has_word(card.name, "MIG")) {
    return "a MIG slice";
  }
  if (card.vgpu || brand == kGrid || (brand >= kFirstVirtual && brand <= kLastVirtual)) {
    return "a vGPU";
  }
  if (card.mps_percent && *card.mps_percent < 100) {
    return fmt::format("{} % of the threads under MPS", *card.mps_percent);
  }
  return "";
}

/// Why the card is no datacenter card; empty: it is one. What is not stated passes.
std::string not_datacenter(const Hardware& card, int brand) {
  if (brand != kTesla && brand != kNvidia) {
    return fmt::format("its brand is {}", brand_name(brand));
  }
  if (card.ecc_supported == false) {
    return "it has no ECC";
  }
  if (card.display_active == true) {
    return "a display is active on it";
  }
  if (find_known(card.name) == nullptr && card.bus_bits && *card.bus_bits < kDatacenterBusBits) {
    return fmt::format("its name is not known and its memory bus has {} bits", *card.bus_bits);
  }
  return "";
}

struct Judgement {
  CardClass card_class;
  const char* rule;
  std::string reason;
  const char* flag = nullptr;
};

Judgement judge_card(const Hardware& card) {
  const int cc = card.compute_capability;
  const int brand = card.brand.value_or(brand_of_name(card.name));
  const std::string version = fmt::format("{}.{}", cc / 10, cc % 10);
  if (cc < 90) {
    return {CardClass::kReference, "H2", "compute capability " + version + " is below 9.0"};
  }
  if (cc / 10 == 12) {
    return {CardClass::kReference, "H3", "compute capability " + version + ": a consumer line"};
  }
  if (is_embedded(card)) {
    return {CardClass::kReference, "H4", "an integrated or embedded part"};
  }
  if (const std::string part = part_of_card(card, brand); !part.empty()) {
    return {CardClass::kReference, "H5", part + " of a card", "partial"};
  }
  if (std::find(kConsumerBrands.begin(), kConsumerBrands.end(), brand) != kConsumerBrands.end() ||
      has_any_word(card.name, kConsumerWords)) {
    return {CardClass::kReference, "H6", "a consumer or workstation card"};
  }
  const std::string failed = not_datacenter(card, brand);
  if (!failed.empty()) {
    return {CardClass::kReference, "H10", "no datacenter card: " + failed, "unknown"};
  }
  if (cc == 100 || cc == 103) {
    return {CardClass::kPreferred, "H7", "datacenter card of compute capability " + version};
  }
  if (cc == 90) {
    return {CardClass::kAccepted, "H8", "datacenter card of compute capability 9.0"};
  }
  return {CardClass::kAccepted, "H9",
          "datacenter card newer than 9.0 that no list names: " + version, "unlisted"};
}

}  // namespace

std::string_view card_class_name(CardClass card_class) {
  constexpr std::string_view kNames[] = {"preferred", "accepted", "reference", "none"};
  return kNames[static_cast<size_t>(card_class)];
}

std::optional<CardClass> find_card_class(std::string_view name) {
  for (const CardClass card_class :
       {CardClass::kPreferred, CardClass::kAccepted, CardClass::kReference, CardClass::kNone}) {
    if (card_class_name(card_class) == name) {
      return card_class;
    }
  }
  return std::nullopt;
}

std::optional<int> find_brand(std::string_view name) {
  int number = 0;
  const char* const end = name.data() + name.size();
  if (const auto [rest, error] = std::from_chars(name.data(), end, number);
      error == std::errc() && rest == end) {
    return number >= 0 && number < static_cast<int>(kBrands.size()) ? std::optional(number)
                                                                    : std::nullopt;
  }
  std::string joined;
  std::copy_if(name.begin(), name.end(), std::back_inserter(joined),
               [](char c) { return c != ' ' && c != '_' && c != '-'; });
  const auto* const found =
      std::find_if(kBrands.begin(), kBrands.end(),
                   [&](std::string_view brand) { return same_word(brand, joined); });
  return found == kBrands.end() ? std::nullopt
                                : std::optional(static_cast<int>(found - kBrands.begin()));
}

int brand_of_name(std::string_view product) {
  constexpr std::pair<std::string_view, int> kHints[] = {{"GeForce", kGeForce}, {"Titan", kTitan},
                                                         {"Quadro", kQuadro},   {"RTX", kNvidiaRtx},
                                                         {"Tesla", kTesla},     {"GRID", kGrid}};
  const auto* const found =
      std::find_if(std::begin(kHints), std::end(kHints),
                   [&](const auto& hint) { return has_word(product, hint.first); });
  return found == std::end(kHints) ? kNvidia : found->second;
}

std::string_view brand_name(int brand) {
  return kBrands[brand >= 0 && brand < static_cast<int>(kBrands.size()) ? static_cast<size_t>(brand)
                                                                        : 0];
}

std::vector<std::string> reference_cards_in(std::string_view text, std::string_view own) {
  std::vector<std::string> found;
  const auto look_for = [&](std::string_view word) {
    if (has_word(text, word) && !has_word(own, word)) {
      found.emplace_back(word);
    }
  };
  for (const KnownCard& known : kKnownCards) {
    Hardware card;
    card.name = known.word;
    card.compute_capability = known.compute_capability;
    classify(&card);
    if (card.card_class == CardClass::kReference) {
      look_for(known.word);
    }
  }
  std::for_each(std::begin(kConsumerWords), std::end(kConsumerWords), look_for);
  return found;
}

void classify(Hardware* card) {
  card->flags.clear();
  if (card->compute_capability == 0) {
    card->card_class = CardClass::kNone;
    card->rule = "H1";
    card->reason = card->reason.empty() ? "no usable NVIDIA device" : card->reason;
    return;
  }
  const Judgement judgement = judge_card(*card);
  card->card_class = judgement.card_class;
  card->rule = judgement.rule;
  card->reason = judgement.reason;
  if (judgement.flag != nullptr) {
    card->flags.emplace_back(judgement.flag);
  }
  const KnownCard* const known = find_known(card->name);
  if (known != nullptr && known->compute_capability != card->compute_capability) {
    card->flags.emplace_back("name-mismatch");
  }
  if (card->at_most && *card->at_most > card->card_class) {
    card->reason += fmt::format("; lowered from {} by fla.toml", card_class_name(card->card_class));
    card->card_class = *card->at_most;
    card->flags.emplace_back("lowered");
  }
}

}  // namespace fla::perf
