// SPDX-License-Identifier: MIT
// A report as one HTML page: style and drawings are in it, nothing is loaded.
#include <utility>

#include <fmt/format.h>

#include "perf/report/document.h"

namespace fla::perf::report {
namespace {

constexpr std::string_view kStyle = R"(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f24; background: #fff;
       max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.2rem;
     border-bottom: 1px solid #d0d7de; } h3 { font-size: 1.05rem; margin-top: 1.6rem; }
table { border-collapse: collapse; font-size: 13px; display: block; overflow-x: auto; }
th, td { border: 1px solid #d0d7de; padding: .25rem .6rem; text-align: left; }
th { background: #f6f8fa; } td { font-variant-numeric: tabular-nums; }
code, pre { font: 12.5px/1.45 ui-monospace, monospace; }
pre { background: #f6f8fa; padding: .7rem; overflow-x: auto; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { font-size: 13px; color: #57606a; }
.human { border-left: 3px solid #bf8700; padding-left: .8rem; white-space: pre-wrap; }
)";

std::string escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

/// Escaped, with `code` marked; an odd backtick stays as it is.
std::string inline_html(std::string_view text) {
  std::string html;
  while (!text.empty()) {
    const size_t open = text.find('`');
    const size_t close = open == text.npos ? open : text.find('`', open + 1);
    if (close == text.npos) {
      return html + escape(text);
    }
    html += escape(text.substr(0, open)) + "<code>" +
            escape(text.substr(open + 1, close - open - 1)) + "</code>";
    text.remove_prefix(close + 1);
  }
  return html;
}

/// The svg element alone, without the declarations before it.
std::string_view svg_element(std::string_view svg) {
  const size_t start = svg.find("<svg");
  return start == svg.npos ? std::string_view() : svg.substr(start);
}

class HtmlWriter {
 public:
  explicit HtmlWriter(const HumanTexts& written) : written_(written) {}

  void operator()(const Heading& block) {
    html_ += fmt::format("<h{0}>{1}</h{0}>\n", block.level, inline_html(block.text));
  }
  void operator()(const Paragraph& block) {
    html_ += fmt::format("<p>{}</p>\n", inline_html(block.text));
  }
  void operator()(const Items& block) {
    html_ += "<ul>\n";
    for (const std::string& item : block.texts) {
      html_ += fmt::format("<li>{}</li>\n", inline_html(item));
    }
    html_ += "</ul>\n";
  }
  void operator()(const Table& block) {
    html_ += "<table>\n";
    for (size_t i = 0; i < block.rows.size(); ++i) {
      const char* cell_tag = i == 0 ? "th" : "td";
      html_ += "<tr>";
      for (const std::string& cell : block.rows[i]) {
        html_ += fmt::format("<{0}>{1}</{0}>", cell_tag, inline_html(cell));
      }
      html_ += "</tr>\n";
    }
    html_ += "</table>\n";
  }
  void operator()(const Listing& block) {
    html_ += fmt::format("<pre>{}</pre>\n", escape(block.text));
  }
  void operator()(const Figure& block) {
    html_ += fmt::format("<figure>\n{}\n<figcaption>{}</figcaption>\n</figure>\n",
                         svg_element(block.svg), inline_html(block.caption));
  }
  void operator()(const Human& block) {
    const auto found = written_.find(block.name);
    const std::string text =
        found != written_.end() ? found->second : fmt::format("[to fill: {}]", block.prompt);
    html_ += fmt::format("<div class=\"human\">{}</div>\n", inline_html(text));
  }

  std::string take() { return std::move(html_); }

 private:
  const HumanTexts& written_;
  std::string html_;
};

}  // namespace

std::string to_html(const Document& document, const HumanTexts& written) {
  HtmlWriter writer(written);
  for (const Block& block : document.blocks) {
    std::visit(writer, block);
  }
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<h1>{2}</h1>\n{3}</body>\n</html>\n",
      escape(document.title), kStyle, inline_html(document.title), writer.take());
}

}  // namespace fla::perf::report
