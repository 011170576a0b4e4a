// SPDX-License-Identifier: MIT
// A report as Markdown, and the parts of it that people wrote.
#include "perf/report/document.h"

#include <fmt/format.h>

#include "perf/format.h"

namespace fla::perf::report {
namespace {

constexpr std::string_view kOpen = "<!-- human: ";
constexpr std::string_view kOpenEnd = " -->\n";
constexpr std::string_view kClose = "<!-- /human -->";
constexpr std::string_view kPromptMark = "[to fill: ";

class MarkdownWriter {
 public:
  explicit MarkdownWriter(const HumanTexts& written) : written_(written) {}

  void operator()(const Heading& block) {
    text_ +=
        fmt::format("{} {}\n\n", std::string(static_cast<size_t>(block.level), '#'), block.text);
  }
  void operator()(const Paragraph& block) { text_ += block.text + "\n\n"; }
  void operator()(const Items& block) {
    for (const std::string& item : block.texts) {
      text_ += "- " + item + "\n";
    }
    text_ += "\n";
  }
  void operator()(const Table& block) { text_ += markdown(block.rows) + "\n"; }
  void operator()(const Listing& block) { text_ += "```\n" + block.text + "```\n\n"; }
  void operator()(const Figure& block) {
    text_ += fmt::format("*{}: in report.html.*\n\n", block.caption);
  }
  void operator()(const Human& block) {
    const auto found = written_.find(block.name);
    text_ += fmt::format("{}{}{}", kOpen, block.name, kOpenEnd);
    text_ +=
        found != written_.end() ? found->second : fmt::format("{}{}]\n", kPromptMark, block.prompt);
    text_ += fmt::format("{}\n\n", kClose);
  }

  std::string take() { return std::move(text_); }

 private:
  const HumanTexts& written_;
  std::string text_;
};

}  // namespace

std::string to_markdown(const Document& document, const HumanTexts& written) {
  MarkdownWriter writer(written);
  for (const Block& block : document.blocks) {
    std::visit(writer, block);
  }
  return fmt::format("# {}\n\n{}", document.title, writer.take());
}

HumanTexts read_human_texts(std::string_view markdown) {
  HumanTexts texts;
  for (size_t at = markdown.find(kOpen); at != std::string_view::npos;
       at = markdown.find(kOpen, at)) {
    const size_t name = at + kOpen.size();
    const size_t name_end = markdown.find(kOpenEnd, name);
    const size_t start = name_end == std::string_view::npos ? name_end : name_end + kOpenEnd.size();
    const size_t end = start == std::string_view::npos ? start : markdown.find(kClose, start);
    if (end == std::string_view::npos) {
      break;
    }
    const std::string_view body = markdown.substr(start, end - start);
    if (!body.starts_with(kPromptMark) && body.find_first_not_of(" \r\n") != body.npos) {
      texts.emplace(markdown.substr(name, name_end - name), body);
    }
    at = end;
  }
  return texts;
}

}  // namespace fla::perf::report
