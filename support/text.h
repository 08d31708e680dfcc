#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace dimred {

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// With a-z in the place of A-Z, whatever the locale; other bytes stay.
std::string lower_case(std::string_view text);

/// `number` >= 0 with zeros in front, `digits` long at least: names sort as their numbers do.
std::string padded(std::int64_t number, std::size_t digits);

}  // namespace dimred
