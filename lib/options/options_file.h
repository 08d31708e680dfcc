#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dimred {

/// The value's type by the file's syntax; `any` in a key=value file, where all is text.
enum class ConfigType { any, integer, number, boolean, text, numbers, table, other };

struct ConfigEntry {
  std::string name;
  std::string text;    // as an option's assign wants it
  std::string source;  // "file:line:column" of the key
  ConfigType type = ConfigType::any;
};

/// The entry's value as TOML: "a text" in quotation marks, [1, 2], 0.5.
std::string toml_value(const ConfigEntry& entry);

/// The entries of a TOML file (name ends in .toml) or of a file of key=value lines, in file order.
/// Throws std::invalid_argument("file:line:column: what") when it is missing or cannot be parsed.
std::vector<ConfigEntry> read_config_file(const std::filesystem::path& file);

/// Reads the TOML text of `file`.
std::vector<ConfigEntry> read_toml(const std::filesystem::path& file, const std::string& text);

}  // namespace dimred
