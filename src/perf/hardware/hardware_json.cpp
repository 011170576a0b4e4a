// SPDX-License-Identifier: MIT
// fla.hardware/1 as JSON values, and the id that follows from them.
#include "perf/hardware/hardware_json.h"

#include <fmt/format.h>

#include "perf/host/digest.h"
#include "perf/json_value.h"

namespace fla::perf {
namespace {

using Json = nlohmann::ordered_json;

Json model_json(const Hardware& card) {
  return {{"name", card.name},
          {"compute_capability", card.compute_capability},
          {"sm_count", or_null(card.num_sms)},
          {"l2_bytes", or_null(card.l2_bytes)},
          {"mem_bytes", or_null(card.memory_bytes)},
          {"bus_bits", or_null(card.bus_bits)},
          {"max_sm_mhz", or_null(card.max_sm_mhz)},
          {"max_mem_mhz", or_null(card.max_memory_mhz)},
          {"power_limit_w", or_null(card.power_limit_w)},
          {"ecc_supported", or_null(card.ecc_supported)},
          {"ecc", or_null(card.ecc)},
          {"brand", or_null(card.brand)},
          {"mig", card.mig},
          {"vgpu", card.vgpu},
          {"mps_percent", or_null(card.mps_percent)},
          {"integrated", card.integrated}};
}

Json instance_json(const Hardware& card) {
  return {{"uuid", card.uuid},
          {"pci_bus_id", card.pci_bus_id},
          {"vbios", card.vbios},
          {"driver", card.driver},
          {"boot_id", card.boot_id},
          {"persistence", or_null(card.persistence)},
          {"display_active", or_null(card.display_active)},
          {"other_processes", card.other_processes}};
}

/// Reads typed members into fields and keeps the name of the first that has another type.
class Members {
 public:
  Members(const nlohmann::json& document, const char* group) {
    const auto found = document.find(group);
    if (found != document.end() && found->is_object()) {
      members_ = &*found;
    } else {
      wrong_ = group;
    }
  }

  template <class T>
  void read(const char* key, T* field) {
    if (const nlohmann::json* value = find(key)) {
      store(key, *value, field);
    }
  }
  template <class T>
  void read(const char* key, std::optional<T>* field) {
    const nlohmann::json* const value = find(key);
    if (value != nullptr && !value->is_null()) {
      store(key, *value, &field->emplace());
    }
  }
  const std::string& wrong() const { return wrong_; }

 private:
  const nlohmann::json* find(const char* key) {
    if (members_ == nullptr) {
      return nullptr;
    }
    const auto found = members_->find(key);
    return found == members_->end() ? nullptr : &*found;
  }
  template <class T>
  void store(const char* key, const nlohmann::json& value, T* field) {
    if constexpr (std::is_same_v<T, bool>) {
      value.is_boolean() ? void(*field = value.get<bool>()) : note(key);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value.is_string() ? void(*field = value.get<std::string>()) : note(key);
    } else if constexpr (std::is_same_v<T, double>) {
      value.is_number() ? void(*field = value.get<double>()) : note(key);
    } else {
      value.is_number_integer() ? void(*field = value.get<T>()) : note(key);
    }
  }
  void note(const char* key) { wrong_ = wrong_.empty() ? key : wrong_; }

  const nlohmann::json* members_ = nullptr;
  std::string wrong_;
};

void read_model(Members* model, Hardware* card) {
  model->read("name", &card->name);
  model->read("compute_capability", &card->compute_capability);
  model->read("sm_count", &card->num_sms);
  model->read("l2_bytes", &card->l2_bytes);
  model->read("mem_bytes", &card->memory_bytes);
  model->read("bus_bits", &card->bus_bits);
  model->read("max_sm_mhz", &card->max_sm_mhz);
  model->read("max_mem_mhz", &card->max_memory_mhz);
  model->read("power_limit_w", &card->power_limit_w);
  model->read("ecc_supported", &card->ecc_supported);
  model->read("ecc", &card->ecc);
  model->read("brand", &card->brand);
  model->read("mig", &card->mig);
  model->read("vgpu", &card->vgpu);
  model->read("mps_percent", &card->mps_percent);
  model->read("integrated", &card->integrated);
}

void read_instance(Members* instance, Hardware* card) {
  instance->read("uuid", &card->uuid);
  instance->read("pci_bus_id", &card->pci_bus_id);
  instance->read("vbios", &card->vbios);
  instance->read("driver", &card->driver);
  instance->read("boot_id", &card->boot_id);
  instance->read("persistence", &card->persistence);
  instance->read("display_active", &card->display_active);
  instance->read("other_processes", &card->other_processes);
}

}  // namespace

std::string Hardware::id() const {
  return "hw:" +
         host::sha256(model_json(*this).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json hardware_json(const Hardware& card) {
  return {{"schema", "fla.hardware/1"},
          {"id", card.id()},
          {"model", model_json(card)},
          {"instance", instance_json(card)},
          {"judgement",
           {{"at_most", card.at_most ? Json(card_class_name(*card.at_most)) : Json(nullptr)},
            {"class", card_class_name(card.card_class)},
            {"rule", card.rule},
            {"reason", card.reason},
            {"flags", card.flags}}}};
}

Result<Hardware> hardware_from_json(const nlohmann::json& json) {
  if (!json.is_object() || json.value("schema", nlohmann::json()) != "fla.hardware/1") {
    return Status(Code::kIo, "hardware: expected an object of schema 'fla.hardware/1'");
  }
  Hardware card;
  Members model(json, "model");
  read_model(&model, &card);
  Members instance(json, "instance");
  read_instance(&instance, &card);
  Members judgement(json, "judgement");
  std::optional<std::string> at_most;
  judgement.read("at_most", &at_most);
  card.at_most = find_card_class(at_most.value_or(""));
  for (const std::string& wrong : {model.wrong(), instance.wrong(), judgement.wrong()}) {
    if (!wrong.empty()) {
      return Status(Code::kIo, fmt::format("hardware: '{}' has the wrong type", wrong));
    }
  }
  classify(&card);  // a judgement is worth what its facts are
  return card;
}

}  // namespace fla::perf
