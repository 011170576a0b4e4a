// SPDX-License-Identifier: MIT
// A report before it is Markdown or HTML: the same blocks give both.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fla::perf::report {

/// Text may hold `code` between backticks.
struct Heading {
  int level = 2;
  std::string text;
};
struct Paragraph {
  std::string text;
};
struct Items {
  std::vector<std::string> texts;
};
struct Table {
  std::vector<std::vector<std::string>> rows;  // the first is the head
};
struct Listing {
  std::string text;
};
/// A drawing; in Markdown only its caption stands, since a text has no pictures.
struct Figure {
  std::string caption;
  std::string svg;
};
/// A part that a person writes; what stands there already is kept.
struct Human {
  std::string name;    // "conclusion"
  std::string prompt;  // stands there until somebody writes
};

using Block = std::variant<Heading, Paragraph, Items, Table, Listing, Figure, Human>;

struct Document {
  std::string title;
  std::vector<Block> blocks;
};

/// What people wrote, by the part's name.
using HumanTexts = std::map<std::string, std::string, std::less<>>;

std::string to_markdown(const Document& document, const HumanTexts& written);
/// One page that needs no other file and no network.
std::string to_html(const Document& document, const HumanTexts& written);

/// The parts between "<!-- human: NAME -->" and "<!-- /human -->" of an earlier report that differ
/// from their prompts.
HumanTexts read_human_texts(std::string_view markdown);

}  // namespace fla::perf::report
