#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dimred {

/// "1 file", "2 files", "1,200 files"; `plural` where it is not the noun with an s.
std::string counted(std::int64_t count, std::string_view noun, std::string_view plural = {});

}  // namespace dimred
