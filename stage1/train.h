#pragma once

#include <cstdint>
#include <filesystem>

#include "method/average.h"
#include "optimizers/optimizer.h"
#include "run/epoch.h"
#include "run/hook_options.h"
#include "run/weights/transfer.h"
#include "schedules/schedule.h"
#include "stage1/control.h"
#include "stage1/saves.h"
#include "support/console.h"

namespace dimred::stage1 {

struct Options {
  std::int64_t epochs = 1;
  schedules::ScheduleOptions schedule;
  optimizers::OptimizerOptions optimizer;
  SaveOptions saves;
  ControlOptions control;
  /// The mean covers the weights and BatchNorm's running statistics (as timm's ModelEma) and begins
  /// with the weights that the run starts with; a row `ema` at each evaluation, and ema.h5. decay
  /// 0: none.
  method::AverageOptions ema{
      .kind = method::AverageKind::ema, .from = 0, .decay = 0, .warmup = true};
  run::HookOptions hooks;
  engine::BucketOptions buckets;
  std::filesystem::path resume_from;  // another run's folder or state to continue from; else empty
  run::TransferOptions transfer;
};

/// Throws std::invalid_argument for options out of range or in contradiction.
void validate(const Options& options);

/// Trains to options.epochs, or until a hook wants the end, in the run folder: resumes from its
/// newest valid state, else from options.resume_from, else starts fresh, from options.transfer or
/// as drawn. One curve row an epoch for each set of weights (raw, ema). Bit-identical to a run that
/// was never interrupted. Returns stopped when a signal ended it, with a state of the last step
/// saved.
run::EpochEnd train(engine::Setup& setup,
                    const run::RunFolder& folder,
                    const Options& options,
                    Console& console);

}  // namespace dimred::stage1
