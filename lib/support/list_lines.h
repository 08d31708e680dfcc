#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace dimred {

/// Takes a line without its end, and its place for messages: "list.txt:3".
using TakeListLine = std::function<void(const std::string& line, const std::string& place)>;

/// Reads a text file of at most `most` bytes that has one entry a line. Blank lines and lines that
/// begin with # are skipped. Throws std::runtime_error for a larger file and for a text in UTF-16.
void for_each_list_line(const std::filesystem::path& file,
                        std::int64_t most,
                        const TakeListLine& take);

/// Returns a line of words without the comment at its end. A comment begins at a # behind a blank;
/// any other # is a part of its word, such as a path.
std::string_view without_comment(std::string_view line);

}  // namespace dimred
