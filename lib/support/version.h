#pragma once

#include <string_view>

namespace dimred {

std::string_view version();  // of the project, "0.1.0"
std::string_view
revision();  // git's short hash at build time, with "+" when files differed; "unknown" outside git

}  // namespace dimred
