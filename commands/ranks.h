#pragma once

#include <functional>
#include <string>

#include "distributed/connect.h"
#include "options/options.h"
#include "run/options.h"
#include "support/console.h"

namespace dimred::commands {

/// Runs `work` among the ranks that the launcher started, and returns its exit code. When a rank
/// fails, dies or stops, every rank ends with a code that is not 0, and one of them (rank 0, unless
/// it is the one) says why in one line. Alone, exceptions pass through.
int with_ranks(const std::string& name,
               const launch::RankInfo& rank_info,
               const launch::ConnectOptions& options,
               bool on_gpu,
               const std::function<int(const distributed::Ranks&)>& work);

/// Runs the command of `table` on the device that `options` choose; the ranks have the same
/// options. A device's memory that is short becomes a std::runtime_error with memory_advice() for
/// the command's last word.
int with_ranks(const OptionTable& table,
               const run::CommonOptions& options,
               const std::function<int(const distributed::Ranks&)>& work);

/// Throws std::invalid_argument on every rank, naming the option, when their options differ (how a
/// rank uses its machine aside).
void require_same_options(const distributed::Ranks& ranks, const OptionTable& table);

/// The console that a person sees: rank 0's, and a silent one on other ranks.
Console console_of(const distributed::Ranks& ranks, bool quiet);

}  // namespace dimred::commands
