#include "support/json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

std::vector<std::string> dimred::fuzz::seeds() {
  return {R"({"a": [1, -2.5e3, true, null, {"b": "\u00e9\n"}], "c": {"d": [[]], "e": {}}})",
          std::string(30, '[') + std::string(30, ']'),
          R"(["one", "two", "three", 1e308, 18446744073709551615, "\ud83d\ude00"])"};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::bear_errors([&] {
    if (parse_json(text, "input") != nlohmann::json(parse_ordered_json(text, "input")))
      __builtin_trap();
  });
  return 0;
}
