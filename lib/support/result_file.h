#pragma once

#include <filesystem>
#include <string_view>

namespace dimred {

/// Throws std::invalid_argument where write_result() could not write: a folder, a block device or a
/// socket is there, or the folder of the file is not. For checks before the work.
void require_result_place(const std::filesystem::path& path);

/// Writes a result to where a path leads that somebody has typed: a new or regular file as
/// write_file_atomically() does, also behind a link, which stays; into a character device or pipe
/// that is there (/dev/null, a fifo) and into an open descriptor (/dev/stdout, /dev/fd/3), without
/// replacing them. Throws as require_result_place(), and std::runtime_error for I/O errors.
void write_result(const std::filesystem::path& path, std::string_view text);

}  // namespace dimred
