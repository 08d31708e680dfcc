#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "support/descriptor.h"

// A folder that we write into may come from someone else, with links that lead out of it. Links
// that it holds cannot make these write outside; somebody who changes it meanwhile can.
namespace dimred {

/// open(2) without a mode, again while a signal interrupts it; -1 with errno where it fails. The
/// number is above 2, also in a program that has closed its standard streams and still prints.
int open_retrying(const std::filesystem::path& path, int flags);

/// Throws std::runtime_error("[file] call 'path' failed: text of `error` (errno number)").
[[noreturn]] void fail_call(std::string_view call, const std::filesystem::path& path, int error);

/// fail_call() with errno, where the call has failed.
void require_call(bool done, std::string_view call, const std::filesystem::path& path);

/// Opens (O_CLOEXEC, mode 0666) a file that this process writes or locks; one that is a link, or no
/// regular file, is refused, not followed and not waited for. Throws std::runtime_error.
Descriptor open_no_follow(const std::filesystem::path& path, int flags);

/// A stream to the same.
std::ofstream open_output(const std::filesystem::path& path, std::ios::openmode mode);

/// Cuts the same.
void truncate_file(const std::filesystem::path& path, std::int64_t length);

/// fsync of a file that somebody else has written and flushed. Throws std::runtime_error.
void sync_file(const std::filesystem::path& path);

/// fsync of a folder, so that a rename inside it survives a power loss; of the working folder where
/// the path is empty, as the parent of a plain name is.
void sync_folder(const std::filesystem::path& folder);

/// Creates the folder and its missing parents, durably. Returns whether it created any of them.
/// Throws std::runtime_error. std::filesystem's functions fail where a signal interrupts mkdir, as
/// some network file systems let it.
bool create_folders(const std::filesystem::path& folder);

/// Creates folders below `root`, and refuses a folder that is a link. Throws std::runtime_error.
void create_folders_inside(const std::filesystem::path& root, const std::filesystem::path& folder);

/// Creates `folder` in its parent, which has to exist: somebody has removed it otherwise.
void create_folder_in_existing(const std::filesystem::path& folder);

}  // namespace dimred
