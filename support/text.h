#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dimred {

/// `text` without white space at its ends.
std::string_view trimmed(std::string_view text);

/// With a-z in the place of A-Z, whatever the locale; other bytes stay.
std::string lower_case(std::string_view text);

/// ", which is an HTML page, ..." where a file begins as one; else empty.
std::string html_remark(std::string_view first_bytes);

/// `number` >= 0 with zeros in front, `digits` long at least: names sort as their numbers do.
std::string padded(std::int64_t number, std::size_t digits);

/// "a, b, c".
std::string name_list(const std::vector<std::string>& names);

/// The candidate of smallest edit distance to `name`, or nullopt when none is near.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates);

/// "; did you mean NAME?" where a candidate is near, else `otherwise`; `prefix` stands before it.
std::string suggestion(std::string_view name,
                       const std::vector<std::string>& candidates,
                       std::string_view otherwise = {},
                       std::string_view prefix = {});

}  // namespace dimred
