#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace dimred::imports {

/// The file's JSON object. Throws std::invalid_argument for a file that is missing, larger than a
/// mebibyte, not JSON (with line and column), not an object or with a name twice in one object.
nlohmann::json read_object(const std::filesystem::path& file);

/// A JSON value as the text of one of our options: true, 0.55, plain text.
std::string text_of(const nlohmann::json& value);

}  // namespace dimred::imports
