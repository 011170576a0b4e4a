// SPDX-License-Identifier: MIT
// Reader of fla.results/1.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "perf/hardware/hardware_json.h"
#include "perf/json_document.h"
#include "perf/results.h"

namespace fla::perf {
namespace {

using Json = nlohmann::json;

Status unreadable(std::string message) {
  return {Code::kIo, std::move(message)};
}

/// Typed look-ups that remember the first thing that was wrong instead of throwing.
class Reader {
 public:
  const Json& object(const Json& parent, const char* key) {
    return member(parent, key, "an object", [](const Json& j) { return j.is_object(); });
  }
  const Json& array(const Json& parent, const char* key) {
    return member(parent, key, "an array", [](const Json& j) { return j.is_array(); });
  }
  std::string text(const Json& parent, const char* key, bool nullable = false) {
    const Json& value = member(parent, key, "text", [&](const Json& j) {
      return j.is_string() || (nullable && j.is_null());
    });
    return value.is_string() ? value.get<std::string>() : std::string();
  }
  /// Empty where a file of an older fla has no such field.
  std::string optional_text(const Json& parent, const char* key) {
    return parent.is_object() && parent.contains(key) ? text(parent, key, /*nullable=*/true)
                                                      : std::string();
  }
  bool boolean(const Json& parent, const char* key) {
    const Json& value =
        member(parent, key, "a boolean", [](const Json& j) { return j.is_boolean(); });
    return value.is_boolean() && value.get<bool>();
  }
  int64_t integer(const Json& parent, const char* key) {
    const Json& value = member(parent, key, "an integer", &Reader::is_int64);
    return is_int64(value) ? value.get<int64_t>() : 0;
  }
  std::optional<double> number(const Json& parent, const char* key) {
    const Json& value = member(parent, key, "a number or null",
                               [](const Json& j) { return j.is_number() || j.is_null(); });
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  }

  void fail(std::string message) {
    if (status_.ok()) {
      status_ = unreadable(std::move(message));
    }
  }
  const Status& status() const { return status_; }

  static bool is_int64(const Json& value) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{INT64_MAX});
  }

 private:
  template <class Test>
  const Json& member(const Json& parent, const char* key, const char* expected, Test test) {
    static const Json absent;
    const auto found = parent.is_object() ? parent.find(key) : parent.end();
    if (!parent.is_object() || found == parent.end() || !test(*found)) {
      fail(fmt::format("results: '{}' is not {}", key, expected));
      return absent;
    }
    return *found;
  }

  Status status_;
};

std::vector<std::string> read_texts(Reader* reader, const Json& parent, const char* key) {
  std::vector<std::string> texts;
  for (const Json& item : reader->array(parent, key)) {
    if (!item.is_string()) {
      reader->fail(fmt::format("results: '{}' holds something that is not text", key));
      break;
    }
    texts.push_back(item.get<std::string>());
  }
  return texts;
}

std::optional<int64_t> optional_integer(Reader* reader, const Json& parent, const char* key) {
  return reader->number(parent, key) ? std::optional(reader->integer(parent, key)) : std::nullopt;
}

Block read_block(Reader* reader, const Json& json) {
  const auto seconds = [&](const char* key) { return reader->number(json, key).value_or(0); };
  return {.round = reader->integer(json, "round"),
          .median_s = seconds("median_s"),
          .q1_s = seconds("q1_s"),
          .q3_s = seconds("q3_s"),
          .min_s = seconds("min_s"),
          .p95_s = seconds("p95_s"),
          .n = reader->integer(json, "n")};
}

void read_axes(Reader* reader, const Json& json, ResultRow* row) {
  for (const auto& [axis, value] : reader->object(json, "axes").items()) {
    if (!Reader::is_int64(value)) {
      reader->fail("results: an axis is not an integer");
      return;
    }
    row->axes[axis] = value.get<int64_t>();
  }
}

void read_offsets(Reader* reader, const Json& json, ResultRow* row) {
  const Json& packed = reader->object(json, "cu_seqlens");
  row->cu_seqlens_digest = reader->text(packed, "digest", /*nullable=*/true);
  if (reader->integer(packed, "n") == 0) {
    return;
  }
  for (const Json& offset : reader->array(packed, "offsets")) {
    if (!Reader::is_int64(offset)) {
      reader->fail("results: an offset is not an integer");
      return;
    }
    row->cu_seqlens.push_back(offset.get<int64_t>());
  }
}

void read_interval(Reader* reader, const Json& json, ResultRow* row) {
  const auto found = json.find("ci95_s");
  if (found == json.end() || found->is_null()) {
    return;
  }
  if (!found->is_array() || found->size() != 2 || !(*found)[0].is_number() ||
      !(*found)[1].is_number()) {
    reader->fail("results: 'ci95_s' is not a pair of numbers");
    return;
  }
  row->ci95_s = std::pair((*found)[0].get<double>(), (*found)[1].get<double>());
}

void read_status(Reader* reader, const Json& json, ResultRow* row) {
  const std::string name = reader->text(json, "status");
  for (RowStatus status :
       {RowStatus::kOk, RowStatus::kFailed, RowStatus::kSkipped, RowStatus::kUnavailable}) {
    if (row_status_name(status) == name) {
      row->status = status;
      return;
    }
  }
  reader->fail(fmt::format("results: unknown row status '{}'", name.substr(0, 40)));
}

ResultRow read_row(Reader* reader, const Json& json) {
  ResultRow row;
  for (const auto& [key, target] :
       {std::pair("op", &row.op), std::pair("mode", &row.mode), std::pair("backend", &row.backend),
        std::pair("dtype", &row.dtype), std::pair("gates", &row.gates),
        std::pair("shape", &row.shape), std::pair("coverage", &row.coverage),
        std::pair("timer", &row.timer)}) {
    *target = reader->text(json, key);
  }
  row.plan = reader->text(json, "plan", /*nullable=*/true);
  row.workload_digest = reader->optional_text(json, "workload_digest");
  row.reason = reader->text(json, "reason", /*nullable=*/true);
  read_status(reader, json, &row);
  read_axes(reader, json, &row);
  read_offsets(reader, json, &row);
  for (const Json& block : reader->array(json, "blocks")) {
    row.blocks.push_back(read_block(reader, block));
  }
  row.rotation = reader->integer(json, "rotation");
  row.sm_mhz = optional_integer(reader, json, "sm_mhz");
  row.tokens = reader->integer(json, "tokens");
  row.median_s = reader->number(json, "median_s");
  read_interval(reader, json, &row);
  row.peak_bytes = optional_integer(reader, json, "peak_bytes");
  const Json& model = reader->object(json, "model");
  row.min_bytes = reader->number(model, "min_bytes").value_or(0);
  row.flops = reader->number(model, "flops").value_or(0);
  row.rel_error = reader->number(reader->object(json, "accuracy"), "rel_l2");
  row.flags = read_texts(reader, json, "flags");
  if (json.contains("figures")) {  // files of an older fla have none
    for (const auto& [name, value] : reader->object(json, "figures").items()) {
      row.figures[name] = value.is_number() ? value.get<double>() : 0.0;
    }
  }
  for (const auto& [key, reason] : reader->object(json, "null_reasons").items()) {
    row.null_reasons[key] = reason.is_string() ? reason.get<std::string>() : std::string();
  }
  return row;
}

Peaks read_peaks(Reader* reader, const Json& json) {
  Peaks peaks;
  peaks.threads = static_cast<int>(reader->integer(json, "threads"));
  peaks.copy_bytes_per_s = reader->number(json, "copy_bytes_per_s");
  peaks.copy_reason = reader->text(json, "copy_reason", /*nullable=*/true);
  peaks.flops_per_s = reader->number(json, "flops_per_s");
  peaks.flops_reason = reader->text(json, "flops_reason", /*nullable=*/true);
  peaks.blas_core = reader->text(json, "blas_core", /*nullable=*/true);
  return peaks;
}

std::optional<Gpu> read_gpu(Reader* reader, const Json& document) {
  const auto found = document.find("gpu");
  if (found == document.end() || found->is_null()) {
    return std::nullopt;
  }
  const Json& json = reader->object(document, "gpu");
  Gpu gpu;
  gpu.name = reader->text(json, "name");
  gpu.driver = reader->text(json, "driver", /*nullable=*/true);
  gpu.compute_capability = static_cast<int>(reader->integer(json, "compute_capability"));
  gpu.num_sms = static_cast<int>(reader->integer(json, "num_sms"));
  gpu.memory_bytes = reader->integer(json, "memory_bytes");
  gpu.l2_bytes = reader->integer(json, "l2_bytes");
  gpu.max_sm_mhz = optional_integer(reader, json, "max_sm_mhz");
  gpu.peaks = read_peaks(reader, reader->object(json, "peaks"));
  gpu.node_s = reader->number(json, "node_s");
  return gpu;
}

/// What files of an older fla lack: the card, and the machine's start.
void read_session(Reader* reader, const Json& document, Results* results) {
  if (document.contains("session")) {
    results->boot_id = reader->optional_text(reader->object(document, "session"), "boot_id");
  }
  if (!document.contains("card") || document["card"].is_null()) {
    return;
  }
  const Result<Hardware> card = hardware_from_json(document["card"]);
  if (card.ok()) {
    results->card = card.value();
  } else {
    reader->fail(fmt::format("results: {}", card.status().message()));
  }
}

}  // namespace

Result<Results> read_results(std::string_view text) {
  const Result<Json> parsed = parse_document("results", text);
  if (!parsed.ok()) {
    return parsed.status();
  }
  const Json& document = parsed.value();
  if (Status status = check_schema("results", document, "fla.results"); !status.ok()) {
    return status;
  }
  Reader reader;
  Results results;
  results.kind = reader.text(document, "kind");
  results.created = reader.text(document, "created");
  results.version = reader.text(reader.object(document, "tool"), "version");
  const Json& source = reader.object(document, "source");
  results.commit = reader.text(source, "commit");
  results.dirty = reader.boolean(source, "dirty");
  results.argv = read_texts(&reader, reader.object(document, "command"), "argv");
  results.seed = static_cast<uint64_t>(reader.integer(document, "seed"));
  results.threads = static_cast<int>(reader.integer(document, "threads"));
  results.cache = reader.text(document, "cache");
  const Json& hardware = reader.object(document, "hardware");
  results.machine.cpu_model = reader.text(hardware, "cpu_model");
  results.machine.cores = static_cast<int>(reader.integer(hardware, "cores"));
  results.machine.threads = static_cast<int>(reader.integer(hardware, "threads"));
  results.machine.cache_bytes = reader.integer(hardware, "cache_bytes");
  results.simd_target = reader.text(hardware, "simd_target");
  results.peaks = read_peaks(&reader, reader.object(document, "peaks"));
  results.gpu = read_gpu(&reader, document);
  read_session(&reader, document, &results);
  for (const Json& row : reader.array(document, "rows")) {
    results.rows.push_back(read_row(&reader, row));
    if (!reader.status().ok()) {
      break;
    }
  }
  if (!reader.status().ok()) {
    return reader.status();
  }
  return results;
}

}  // namespace fla::perf
