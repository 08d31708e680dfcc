#pragma once

#include <string_view>

#include "training/setup.h"

namespace dimred::training {

/// Opens the data sets, keeps small images decoded in memory, cuts, adds label noise, splits, and
/// settles how images are prepared (mean and deviation of the training set unless a preset says
/// them). `threads` is this rank's share of the cores. Reads setup.seed. Throws
/// std::invalid_argument for options that contradict the data, std::runtime_error for damaged
/// files.
void load_data(Setup& setup,
               const DataOptions& options,
               const RunOptions& run,
               std::int64_t threads);

// Streamed files that do not all fit in their stream_cache must not be fetched again and again.
// Each of these throws std::invalid_argument where they would be; other data is let through.

/// To be asked before a pass in training_order(), which wants files window by window: needs
/// shuffle_buffer_size > 0, and room for the files of two windows and this setup's batches ahead.
void require_room_for_pass(const Setup& setup);

/// Before training: the same, and no samples held out, which every epoch would read too.
void require_room_for_training(const Setup& setup);

/// Before training samples are read several times in another order. `reader`, who does so, ends the
/// message.
void require_room_for_all(const Setup& setup, std::string_view reader);

}  // namespace dimred::training
