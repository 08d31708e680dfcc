#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Tables as commands print and write them.
namespace dimred::commands {

/// A name and what it is, a line each, the second column aligned.
std::string text_row(std::string_view name, std::string_view value);
std::string text_rows(const std::vector<std::pair<std::string, std::string>>& rows);

/// Rows with columns as wide as they need: the first `left` to the left, the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t left = 1);

/// A field of a CSV file, quoted where it has to be.
std::string csv_field(const std::string& text);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "32 x 1 x 3 x 3"

}  // namespace dimred::commands
