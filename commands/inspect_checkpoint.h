#pragma once

#include <filesystem>
#include <string>

#include "checkpoints/verbs/inspect.h"
#include "commands/inspected_text.h"

namespace dimred::commands {

/// Questions to answer about a checkpoint, beside its contents.
struct CheckpointQuestions {
  bool tensors = false;
  bool check = false;
  std::filesystem::path manifest;
  std::filesystem::path write_manifest;

  bool any() const { return tensors || check || !manifest.empty() || !write_manifest.empty(); }
};

/// Returns the contents of one checkpoint of any kind, an export's signature and the record of a
/// merge with their digests, and the answers. `damaged`: a fault was found. Throws as
/// verbs::inspect().
InspectedText inspect_checkpoint(const std::filesystem::path& path,
                                 const CheckpointQuestions& questions);

/// Returns the weights and digests in the folder's record of a merge or an export; nothing if it
/// has neither.
InspectedText own_records(const std::filesystem::path& folder);

/// A line for each tensor: name, type, shape, elements, bytes, role, file.
std::string tensor_table(const verbs::Inspection& inspection);

}  // namespace dimred::commands
