# Run at every build: writes OUTPUT only when git's answer changed, so nothing is compiled needlessly.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(hash unknown)
else()
  execute_process(COMMAND git -C ${SOURCE} status --porcelain --untracked-files=no
    OUTPUT_VARIABLE changes ERROR_QUIET)
  if(changes)
    string(APPEND hash "+")
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "support/version.h"

namespace dimred {

std::string_view version() { return "@VERSION@"; }
std::string_view revision() { return "@hash@"; }

}  // namespace dimred
]] @ONLY)
