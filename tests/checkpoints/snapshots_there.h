#pragma once

#include "checkpoints/snapshot.h"
#include "checkpoints/snapshot_list.h"
#include "support/list_files.h"

namespace dimred::checkpoints {

/// Returns the list of a run that has written all the snapshots of a folder.
inline SnapshotList snapshots_there(const std::filesystem::path& folder) {
  SnapshotList list;
  for (const auto& file : list_files(folder, {".h5"}))
    list.add(file.filename().string(), snapshot_digest(file));
  return list;
}

}  // namespace dimred::checkpoints
