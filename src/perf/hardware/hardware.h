// SPDX-License-Identifier: MIT
// A card: what it is, which one it is, and what its numbers may be used for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fla/status.h"

namespace fla::perf {

/// What numbers from a card may carry. Reference numbers never carry a conclusion alone.
enum class CardClass : uint8_t { kPreferred, kAccepted, kReference, kNone };
std::string_view card_class_name(CardClass card_class);
std::optional<CardClass> find_card_class(std::string_view name);

/// A card and its class. A value that is not known is none.
struct Hardware {
  // The model: what decides whether numbers of two cards can be laid side by side.
  std::string name;
  int compute_capability = 0;  // 90 for sm_90; 0: no card
  std::optional<int64_t> num_sms;
  std::optional<int64_t> l2_bytes;
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> bus_bits;
  std::optional<int64_t> max_sm_mhz;
  std::optional<int64_t> max_memory_mhz;
  std::optional<double> power_limit_w;
  std::optional<bool> ecc_supported;
  std::optional<bool> ecc;
  std::optional<int> brand;  // nvmlBrandType_t
  bool mig = false;
  bool vgpu = false;
  std::optional<int64_t> mps_percent;  // of the threads, by CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
  bool integrated = false;

  // This card, on this machine, since this start of it.
  std::string uuid;
  std::string pci_bus_id;
  std::string vbios;
  std::string driver;
  std::string boot_id;
  std::optional<bool> persistence;
  std::optional<bool> display_active;
  int64_t other_processes = 0;  // with a context on the card

  // The judgement. The user may lower the class; nothing raises it.
  std::optional<CardClass> at_most;
  CardClass card_class = CardClass::kNone;
  std::string rule = "H1";
  std::string reason;              // of the rule, in words
  std::vector<std::string> flags;  // partial, name-mismatch, unlisted, unknown, lowered

  /// "hw:" and the SHA-256 of the model.
  std::string id() const;
};

/// Fills the judgement from the rest by the rules H1 to H10, the first that fits: docs/evidence.md.
void classify(Hardware* card);

/// The cards of class reference that a text names: those that the classifier knows, and consumer
/// lines. A card of which a word is in `own` is left out.
std::vector<std::string> reference_cards_in(std::string_view text, std::string_view own);

/// A brand by NVML's name for it ("GeForce", "Tesla", "NVIDIA", ...; case and blanks do not matter)
/// or its number; none if unknown.
std::optional<int> find_brand(std::string_view name);
/// The brand that a product name suggests.
int brand_of_name(std::string_view product);
std::string_view brand_name(int brand);

/// The first GPU of CUDA, or of NVML in a build without CUDA, classified. Without any: class none,
/// the reason says what was found. NVML is looked for in `lib_dir` as well.
Hardware read_hardware(const std::string& lib_dir, std::optional<int64_t> mps_percent);

/// Names this start of the machine; empty where the system does not say.
std::string read_boot_id();

/// "accepted  NVIDIA H200 (sm_90) ...": the class is the first word.
std::string to_text(const Hardware& card);

}  // namespace fla::perf
