#pragma once

#include <filesystem>
#include <string>

#include "commands/inspected_text.h"

namespace dimred::commands {

/// Returns the verified contents of a snapshot. Throws std::runtime_error for a damaged one.
std::string inspect_snapshot(const std::filesystem::path& file);

/// Throws std::runtime_error where a file has the name of a snapshot of ours and does not begin as
/// one does.
void require_whole_snapshot(const std::filesystem::path& file);

/// Returns the contents of a folder of ours: a run, a state, snapshots, states, or weight files
/// that are checkpoints each. Throws std::invalid_argument for another one.
InspectedText inspect_folder(const std::filesystem::path& folder);

}  // namespace dimred::commands
