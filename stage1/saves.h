#pragma once

#include <cstdint>

namespace dimred::stage1 {

/// When weights are saved for the PCA, and full states for a resume.
struct SaveOptions {
  std::int64_t snapshots_per_epoch = 1;  // >= 0, evenly spread, the last at the epoch's end
  bool snapshot_initial = false;         // one of epoch 0, before the first step
  std::int64_t snapshot_from_epoch = 1;  // the first epoch with snapshots, counted from 1
  std::int64_t keep_snapshots = 1000;    // >= 1, newest stay
  bool yes = false;  // also where the network is huge or its snapshots do not fit on the disk
  std::int64_t checkpoint_every = 1;  // epochs between full states, >= 1
  std::int64_t keep_checkpoints = 2;  // >= 1, newest stay
};

}  // namespace dimred::stage1
