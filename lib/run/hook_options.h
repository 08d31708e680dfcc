#pragma once

#include <cstdint>
#include <string>

#include "options/options.h"
#include "run/hooks.h"

namespace dimred::run {

/// The hooks that both stages have.
struct HookOptions {
  std::int64_t profile_every_n_iters = 0;  // >= 0; steps between two traces; 0: none
  std::int64_t profile_at_task = 0;        // >= 0; the rank that is traced
  bool time_history = false;               // writes step_times.csv
  std::string hooks;                       // of run/hooks/, comma-separated
};

/// The rows of the group "Control".
void add_options(OptionTable& table, HookOptions& options);

/// Adds them behind those there are. Throws std::invalid_argument for options out of range, an
/// unknown hook or one named twice.
void add_hooks(Hooks& hooks, const HookOptions& options, int ranks);

/// Throws as add_hooks does.
void validate(const HookOptions& options, int ranks);

}  // namespace dimred::run
