#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

// The one way in which a JSON text is read: a file of a few megabytes could otherwise take
// gigabytes, as deep nesting, many values or one long token do.
namespace dimred {

struct JsonLimits {
  std::size_t bytes = std::size_t{64} << 20;  // of the text
  std::size_t depth = 32;                     // of objects and lists in one another
  std::size_t memory = 56'000'000;            // of what is read, beside the text
  std::size_t memory_per_byte = 0;            // of the text, where that is more
};

/// Limits of texts that this program or its own scripts wrote.
inline constexpr JsonLimits own_json_limits{.bytes = std::size_t{1} << 30,
                                            .memory = std::size_t{8} << 30};

/// Limits of a table of tensors, which takes about 10 bytes of memory for a byte of the text.
inline constexpr JsonLimits table_json_limits{.memory_per_byte = 20};

/// The text's value. Throws std::runtime_error("SOURCE: line 3, column 7: what") for a text that
/// exceeds the limits (before it is read), is not JSON, or has a name twice in one object.
nlohmann::json parse_json(std::string_view text,
                          std::string_view source,
                          const JsonLimits& limits = {});

/// Parses with objects' names in the text's order.
nlohmann::ordered_json parse_ordered_json(std::string_view text,
                                          std::string_view source,
                                          const JsonLimits& limits = {});

using TakeMember = std::function<void(const std::string& name, const nlohmann::json& value)>;

/// Calls `take` with each member of the object that the text holds, in the text's order. Memory:
/// one member at a time, and the names. Throws as parse_json() does, and for another value.
void for_each_member(std::string_view text,
                     std::string_view source,
                     const JsonLimits& limits,
                     const TakeMember& take);

/// Adds a value under a name that the object does not have: an ordered object looks for each name
/// among all before it, which takes minutes for the 10^5 tensors of a mixture of experts.
void append_value(nlohmann::ordered_json& object,
                  const std::string& name,
                  nlohmann::ordered_json value);

/// The value in one line; bytes of its texts that are no UTF-8 become U+FFFD.
std::string json_line(const nlohmann::json& value);

}  // namespace dimred
