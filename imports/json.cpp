#include "imports/json.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::imports {

namespace {

/// Throws for a name that an object has twice: the parser alone would keep the last.
class UniqueNames {
 public:
  explicit UniqueNames(std::string file) : file_(std::move(file)) {}

  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) names_.emplace_back();
    if (event == Event::object_end) names_.pop_back();
    if (event == Event::key) {
      const auto name = parsed.get<std::string>();
      if (!names_.back().insert(name).second)
        throw std::invalid_argument(concat(file_, ": ", printable(name), ": given twice"));
    }
    return true;
  }

 private:
  std::string file_;
  std::vector<std::set<std::string>> names_;  // of the objects that are open
};

}  // namespace

nlohmann::json read_object(const std::filesystem::path& file) {
  constexpr std::uintmax_t largest = 1 << 20;
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  require(!error && size <= largest,
          "imports",
          "needs a readable file of at most 1 MiB, received ",
          file.string());
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    auto json = nlohmann::json::parse(text, UniqueNames(file.string()));
    if (json.is_object()) return json;
  } catch (const nlohmann::json::exception& broken) {
    throw std::invalid_argument(concat(file.string(), ": not JSON: ", printable(broken.what())));
  }
  throw std::invalid_argument(concat(file.string(), ": needs a JSON object"));
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.is_null() ? "" : value.dump();
}

}  // namespace dimred::imports
