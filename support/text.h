#pragma once

#include <cstdint>
#include <functional>
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

/// What `text` says of each item (by default the item, a text), with `separator` between.
template <class Items, class Text = std::identity>
std::string joined(const Items& items, std::string_view separator, const Text& text = {}) {
  std::string all;
  std::string_view before;
  for (const auto& item : items) {
    all.append(before).append(text(item));
    before = separator;
  }
  return all;
}

/// "a, b, c".
inline std::string name_list(const std::vector<std::string>& names) { return joined(names, ", "); }

/// The candidate of smallest edit distance to `name`, or nullopt when none is near.
std::optional<std::string> nearest(std::string_view name,
                                   const std::vector<std::string>& candidates);

/// "; did you mean NAME?" where a candidate is near, else `otherwise`; `prefix` stands before it.
std::string suggestion(std::string_view name,
                       const std::vector<std::string>& candidates,
                       std::string_view otherwise = {},
                       std::string_view prefix = {});

}  // namespace dimred
