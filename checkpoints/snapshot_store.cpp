#include <algorithm>
#include <cstdio>
#include <utility>

#include "checkpoints/snapshot.h"
#include "checkpoints/step_names.h"
#include "support/atomic_file.h"
#include "support/errors.h"

namespace dimred::checkpoints {

SnapshotStore::SnapshotStore(std::filesystem::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  require(keep >= 1, "[SnapshotStore] needs keep >= 1, received {}", keep);
}

std::filesystem::path SnapshotStore::save(const Snapshot& snapshot) const {
  create_folders_inside(folder_.parent_path(), folder_);
  remove_stale_temporaries(folder_, kSnapshotNames.prefix);
  std::filesystem::path path = folder_ / kSnapshotNames.name_of(snapshot.step);
  write_snapshot(path, snapshot);
  remove_oldest(folder_, kSnapshotNames, keep_, path);
  return path;
}

}  // namespace dimred::checkpoints
