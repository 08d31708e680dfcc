#include "imports/json.h"

#include <nlohmann/json.hpp>

#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/option_values.h"

namespace dimred::imports {

nlohmann::json read_object(const std::filesystem::path& file) {
  constexpr std::int64_t largest = 1 << 20;
  try {
    auto json = parse_json(InputFile(file).text(largest), file.string());
    if (json.is_object()) return json;
  } catch (const std::runtime_error& unusable) {
    throw std::invalid_argument(unusable.what());
  }
  throw std::invalid_argument(formatted("{}: needs a JSON object", file.string()));
}

std::string text_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return number_text(value.get<double>());
  return value.is_null() ? "" : value.dump();
}

}  // namespace dimred::imports
