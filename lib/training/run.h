#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "checkpoints/background_writer.h"
#include "checkpoints/state.h"
#include "support/console.h"
#include "training/curve.h"
#include "training/hooks.h"
#include "training/position.h"
#include "training/run_folder.h"

namespace dimred::training {

/// A run under way. All ranks have one; files are written by rank 0.
struct Run {
  Setup* setup = nullptr;
  const RunFolder* folder = nullptr;
  Console* console = nullptr;
  checkpoints::StateStore states;
  std::int64_t checkpoint_every = 1;       // epochs between full states, >= 1
  std::filesystem::path resume_from = {};  // another run, whose state a fresh run begins with
  Hooks hooks = {};
  Position position = {};
  FilePrefix curve_prefix = {};  // the part of curve.csv that belongs to the position
  std::optional<CurveWriter> curve = {};
  checkpoints::BackgroundWriter writer{};  // the last: what it still has to do needs the others

  RunView view() { return {setup, &position, folder, console, &writer}; }
};

}  // namespace dimred::training
