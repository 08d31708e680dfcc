#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "stores/store.h"

namespace dimred::stores {

/// The files below a folder, by name below it, sorted. Links are followed, to folders as well.
struct Walked {
  std::vector<std::string> files;
  std::vector<std::string> others;  // neither file nor folder: a link to nothing, a pipe
};

/// Files that vanish meanwhile are left out. Throws std::filesystem::filesystem_error, also for a
/// name of unknown type; std::runtime_error for a link to a folder that it lies in.
Walked walk(const std::filesystem::path& folder);

/// Whether a name below a folder is in a folder `.dimred`, where a data set's indices and
/// decompressed copies are kept: of use on this machine only, and made again on another.
bool is_own_cache(const std::filesystem::path& name);

/// Its bytes; empty where there is nothing. Throws std::invalid_argument when it is no regular
/// file.
std::string text_or_none(const std::filesystem::path& file);

/// Changes when a file does: length, time and inode; empty when there is no regular file.
std::string stamp_of(const std::filesystem::path& file);

/// A regular file as one look finds it, without a name; the etag is its stamp. nullopt where there
/// is none. Throws std::filesystem::filesystem_error where nobody can tell.
std::optional<Item> look_at_file(const std::filesystem::path& file);

}  // namespace dimred::stores
