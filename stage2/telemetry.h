#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>

#include "method/method.h"
#include "run/events/event_log.h"
#include "run/position.h"

namespace dimred::stage2 {

/// steps.csv: one row a step. Flushed when its prefix is asked for, i.e. with each saved state.
class StepLog {
 public:
  /// Takes the file up again behind `prefix`; an empty one starts it. An empty path writes nothing.
  StepLog(const run::LineFile& file, const run::FilePrefix& prefix);
  void append(const run::Position& position, const method::StepReport& report);
  run::FilePrefix prefix();

 private:
  std::filesystem::path path_;
  std::ofstream out_;
  run::EventLog events_;
};

/// Counts over an epoch, for the console.
struct StepCounts {
  std::int64_t steps = 0, trials = 0, failed = 0, skipped = 0, reset = 0;
  void add(const method::StepReport& report);
  std::string describe() const;
};

}  // namespace dimred::stage2
