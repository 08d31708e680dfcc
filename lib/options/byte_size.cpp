#include "options/byte_size.h"

#include <array>
#include <cmath>

#include "options/option_values.h"
#include "support/errors.h"
#include "support/text.h"

namespace dimred {
namespace {

constexpr double most_bytes = 1e15;

struct Unit {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array units{Unit{"TB", 1'000'000'000'000},
                           Unit{"GB", 1'000'000'000},
                           Unit{"MB", 1'000'000},
                           Unit{"KB", 1'000},
                           Unit{"B", 1}};

/// The bytes of the unit that ends the text, which loses it; a bare number counts GB.
std::int64_t take_unit(std::string& text) {
  for (const auto& unit : units) {
    if (!text.ends_with(lower_case(unit.name))) continue;
    text = trimmed(text.substr(0, text.size() - unit.name.size()));
    return unit.bytes;
  }
  return units[1].bytes;
}

}  // namespace

ByteSize parse_byte_size(std::string_view text) {
  auto digits = lower_case(trimmed(text));
  const auto unit = take_unit(digits);
  const auto number = number_in<double>(digits);
  const bool fits = number && *number >= 0 && *number * static_cast<double>(unit) <= most_bytes;
  require(fits,
          "needs a size of at most 1000TB, such as 20KB or 5GB (a number without unit means GB)");
  return {static_cast<std::int64_t>(std::ceil(*number * static_cast<double>(unit)))};
}

std::string byte_size_text(ByteSize size) {
  if (size.bytes == 0) return "0";
  for (const auto& unit : units)
    if (size.bytes % unit.bytes == 0)
      return std::to_string(size.bytes / unit.bytes).append(unit.name);
  return {};  // the last unit divides all
}

Option option_row(ByteSize* field) {
  Option row{.limits = "such as 20KB or 5GB", .kind = OptionKind::text};
  row.assign = [field](const std::string& text) { *field = parse_byte_size(text); };
  row.show = [field] { return toml_string(byte_size_text(*field)); };
  return row;
}

}  // namespace dimred
