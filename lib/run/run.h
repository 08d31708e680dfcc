#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "checkpoints/background_writer.h"
#include "checkpoints/state.h"
#include "run/curve.h"
#include "run/hooks.h"
#include "run/position.h"
#include "run/record.h"
#include "run/run_folder.h"
#include "support/console.h"

namespace dimred::run {

/// A run under way. All ranks have one; files are written by rank 0.
struct Run {
  engine::Setup* setup = nullptr;
  const RunFolder* folder = nullptr;
  Console* console = nullptr;
  RunRecord record;
  checkpoints::StateStore states;
  std::int64_t checkpoint_every = 1;       // epochs between full states, >= 1
  std::filesystem::path resume_from = {};  // another run, whose state a fresh run begins with
  Hooks hooks = {};
  Position position = {};
  FilePrefix curve_prefix = {};  // the part of curve.csv that belongs to the position
  std::optional<CurveWriter> curve = {};
  checkpoints::BackgroundWriter writer{};  // the last: what it still has to do needs the others

  RunView view() { return {setup, &position, folder, console, &record, &writer}; }
};

}  // namespace dimred::run
