#pragma once

#include "schedules/schedule.h"
#include "stage1/train.h"
#include "stage2/options.h"
#include "support/options.h"

namespace dimred::commands {

/// Options that would change nothing beside the others are a misunderstanding. Throws
/// std::invalid_argument for the first one that a flag sets to another value than its default:
/// "[stage1] power has no effect: it needs schedule = polynomial". Files may hold them, as every
/// config.toml does.
void require_effects(const OptionTable& table, const stage1::Options& options);
void require_effects(const OptionTable& table, const optimizers::OptimizerOptions& options);
void require_effects(const OptionTable& table, const training::CommonOptions& options);
void require_effects(const OptionTable& table, const stage2::Resolved& resolved);

}  // namespace dimred::commands
