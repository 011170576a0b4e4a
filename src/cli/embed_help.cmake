# Writes OUTPUT, a C++ source that holds the pages of docs/cli.
# Run as: cmake -DPAGES="a.md;b.md" -DOUTPUT=... -P embed_help.cmake
set(entries "")
foreach(page ${PAGES})
  get_filename_component(name ${page} NAME_WE)
  file(READ ${page} text)
  string(APPEND entries "      {\"${name}\", R\"page(${text})page\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// SPDX-License-Identifier: MIT
// Generated from docs/cli: the pages that `fla help` prints.
#include \"cli/help_pages.h\"

namespace fla::cli {

const std::vector<HelpPage>& help_pages() {
  static const std::vector<HelpPage> pages = {
${entries}  };
  return pages;
}

}  // namespace fla::cli
")
