#include "stage1/train.h"
#include "support/errors.h"

namespace dimred::stage1 {

void validate(const Options& options) {
  require(options.epochs >= 1, "[stage1] epochs needs >= 1, received {}", options.epochs);
  schedules::validate(options.schedule);
  optimizers::validate(options.optimizer);
  validate(options.control);
  training::validate(options.transfer);
  require(options.resume_from.empty() || options.transfer.initialize_from.empty(),
          "[stage1] needs resume_from (go on with a run) or initialize_from (start a new one), "
          "received both");
  validate(options.ema);
  const auto& saves = options.saves;
  require(saves.snapshots_per_epoch >= 0,
          "[stage1] snapshots_per_epoch needs >= 0, received {}",
          saves.snapshots_per_epoch);
  require(saves.snapshot_from_epoch >= 1,
          "[stage1] snapshot_from_epoch needs >= 1, received {}",
          saves.snapshot_from_epoch);
  require(saves.checkpoint_every >= 1,
          "[stage1] checkpoint_every needs >= 1, received {}",
          saves.checkpoint_every);
}

}  // namespace dimred::stage1
