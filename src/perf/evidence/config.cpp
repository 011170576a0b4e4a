// SPDX-License-Identifier: MIT
// Reading and writing TOML.
#include "perf/evidence/config.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
// toml++ 3.3 asserts on some malformed texts for which it has an error message.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include "perf/evidence/glob.h"
#include "perf/host/files.h"

namespace fla::perf::evidence {
namespace {

/// Typed look-ups that remember the first value of the wrong type.
class Reader {
 public:
  Reader(std::string name, const toml::table& table) : name_(std::move(name)), table_(table) {}

  void text(const char* path, std::string* value) {
    const toml::node_view<const toml::node> node = table_.at_path(path);
    if (const auto found = node.value<std::string>(); found && node.is_string()) {
      *value = *found;
    } else if (node) {
      fail(path, "text", *node.node());
    }
  }
  void texts(const char* path, std::vector<std::string>* values) {
    const toml::node_view<const toml::node> node = table_.at_path(path);
    if (node) {
      list(path, *node.node(), values);
    }
  }
  void list(const std::string& path, const toml::node& node, std::vector<std::string>* values) {
    const toml::array* array = node.as_array();
    if (array == nullptr) {
      fail(path, "a list of texts", node);
      return;
    }
    values->clear();
    for (const toml::node& item : *array) {
      if (const auto* one = item.as_string()) {
        values->push_back(one->get());
      } else {
        fail(path, "a list of texts", item);
      }
    }
  }
  const toml::table* table(const char* path) {
    const toml::node_view<const toml::node> node = table_.at_path(path);
    if (node && !node.is_table()) {
      fail(path, "a table", *node.node());
    }
    return node.as_table();
  }
  void fail(std::string_view path, const char* expected, const toml::node& node) {
    if (status_.ok()) {
      status_ = {Code::kIo, fmt::format("{}: line {}: '{}' is not {}", name_,
                                        node.source().begin.line, path, expected)};
    }
  }
  const Status& status() const { return status_; }

 private:
  std::string name_;
  const toml::table& table_;
  Status status_;
};

/// The line of a character outside strings and comments that is not ASCII; 0 where there is none.
/// TOML has no use for one, and toml++ 3.3 does not take it well.
int64_t stray_character(std::string_view text) {
  int64_t line = 1;
  std::string_view quote;  // that ends the string which we are in; "\n" for a comment
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    line += rest[0] == '\n';
    if (quote.empty()) {
      if (static_cast<unsigned char>(rest[0]) >= 0x80) {
        return line;
      }
      for (const std::string_view opening : {"\"\"\"", "'''", "\"", "'", "#"}) {
        if (rest.starts_with(opening)) {
          quote = opening == "#" ? "\n" : opening;
          i += opening.size() - 1;
          break;
        }
      }
    } else if (rest[0] == '\\' && quote[0] == '"') {
      ++i;
    } else if (rest.starts_with(quote) || (quote.size() == 1 && rest[0] == '\n')) {
      i += quote.size() - 1;
      quote = {};
    }
  }
  return 0;
}

Result<toml::table> parse(const std::string& name, std::string_view text) {
  if (const int64_t line = stray_character(text); line > 0) {
    return Status(
        Code::kIo,
        fmt::format("{}: line {}: a character that is not ASCII outside a text", name, line));
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    return Status(Code::kIo, fmt::format("{}: line {}: {}", name, error.source().begin.line,
                                         error.description()));
  }
}

}  // namespace

Result<Config> parse_config(const std::string& name, std::string_view text) {
  const Result<toml::table> table = parse(name, text);
  if (!table.ok()) {
    return table.status();
  }
  Config config;
  Reader reader(name, table.value());
  reader.texts("scope.kernel", &config.kernel_globs);
  reader.texts("build.commands", &config.build);
  reader.text("build.binary", &config.binary);
  reader.texts("bundle.commands", &config.bundle_build);
  reader.texts("bundle.files", &config.bundle_files);
  reader.texts("runner.files", &config.runner_globs);
  reader.text("gate.command", &config.gate);
  if (const toml::table* owners = reader.table("owners")) {
    for (const auto& [glob, ops] : *owners) {
      reader.list(std::string(glob.str()), ops, &config.owners[std::string(glob.str())]);
    }
  }
  if (const toml::table* limits = reader.table("hardware")) {
    for (const auto& [glob, value] : *limits) {
      const auto* const name = value.as_string();
      if (name != nullptr && find_card_class(name->get())) {
        config.hardware[std::string(glob.str())] = name->get();
      } else {
        reader.fail(glob.str(), "preferred, accepted, reference or none", value);
      }
    }
  }
  return reader.status().ok() ? Result<Config>(std::move(config)) : reader.status();
}

void limit_class(const std::map<std::string, std::string>& limits, Hardware* card) {
  for (const auto& [glob, name] : limits) {
    const std::optional<CardClass> limit = find_card_class(name);
    if (limit && glob_matches(glob, card->name)) {
      card->at_most = std::max(card->at_most.value_or(*limit), *limit);
    }
  }
  classify(card);
}

Result<Config> load_config(const std::string& repo) {
  const std::string path = repo + "/fla.toml";
  if (!std::filesystem::exists(path)) {
    return Config{};
  }
  const Result<std::string> text = host::read_file(path);
  return text.ok() ? parse_config(path, text.value()) : text.status();
}

Result<Human> parse_human(const std::string& name, std::string_view text) {
  const Result<toml::table> table = parse(name, text);
  if (!table.ok()) {
    return table.status();
  }
  Human human;
  Reader reader(name, table.value());
  reader.text("summary", &human.summary);
  reader.text("conclusion", &human.conclusion);
  reader.text("conclusion_text", &human.conclusion_text);
  reader.text("risk", &human.risk);
  reader.text("impact", &human.impact);
  if (const toml::table* explanations = reader.table("explanations")) {
    for (const auto& [key, value] : *explanations) {
      if (const auto* one = value.as_string()) {
        human.explanations[std::string(key.str())] = one->get();
      } else {
        reader.fail(key.str(), "text", value);
      }
    }
  }
  return reader.status().ok() ? Result<Human>(std::move(human)) : reader.status();
}

std::string to_toml(const Human& human) {
  toml::table explanations;
  for (const auto& [key, value] : human.explanations) {
    explanations.insert(key, value);
  }
  toml::table table;
  for (const auto& [key, value] :
       {std::pair("summary", human.summary), std::pair("conclusion", human.conclusion),
        std::pair("conclusion_text", human.conclusion_text), std::pair("risk", human.risk),
        std::pair("impact", human.impact)}) {
    table.insert(key, value);
  }
  table.insert("explanations", std::move(explanations));
  std::ostringstream text;
  text << table << '\n';
  return text.str();
}

}  // namespace fla::perf::evidence
