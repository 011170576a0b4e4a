# Writes OUTPUT with the commit that is checked out and its tree; touches it only when that changes, so that nothing
# is linked again otherwise. Run as: cmake -DSOURCE=... -DOUTPUT=... -P build_commit.cmake
find_program(GIT git)
set(commit "unknown")
set(dirty "false")
set(tree "unknown")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE head
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${head})
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse "HEAD^{tree}" OUTPUT_VARIABLE tree
                    OUTPUT_STRIP_TRAILING_WHITESPACE)
    execute_process(COMMAND ${GIT} -C ${SOURCE} status --porcelain --untracked-files=no
                    OUTPUT_VARIABLE changes ERROR_QUIET)
    if(changes)
      set(dirty "true")
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
// SPDX-License-Identifier: MIT
// Generated: the commit of this build.
#include "cli/build_info.h"

namespace fla::cli {

const char* const kCommit = "@commit@";
const char* const kTree = "@tree@";
const bool kDirty = @dirty@;

}  // namespace fla::cli
]])
