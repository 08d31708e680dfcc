#pragma once

#include <filesystem>

namespace dimred::checkpoints {

/// Renames a file or folder to a name that nothing has, not even since the caller looked; false:
/// something has it, and both stay. A file system without this operation (renameat2) is looked at
/// first, and what gets the name in that moment is replaced. Throws std::runtime_error.
bool rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);

enum class Replacement { exchange, two_renames, none };

/// Makes the folder `temporary`, whose files are durable already, appear as `final_path` (same
/// parent), durably. An older folder of that name is swapped with it in one step (renameat2) and
/// then deleted; where the file system cannot swap, it is first renamed to `<final>.old.tmp`, or
/// `<final>.old2.tmp` and so on where that is there, and a crash between the two renames leaves no
/// `final_path`; with Replacement::none it is refused. Throws std::runtime_error.
void commit_folder(const std::filesystem::path& temporary,
                   const std::filesystem::path& final_path,
                   Replacement replacement = Replacement::exchange);

/// Deletes a folder with all that it holds, so that a crash meanwhile leaves no part of it under
/// its name: it is first renamed as above. Throws std::runtime_error.
void remove_folder(const std::filesystem::path& folder);

}  // namespace dimred::checkpoints
