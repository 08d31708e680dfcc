#pragma once

#include "schedules/schedule.h"
#include "support/options.h"

namespace dimred::schedules {

/// The rows of the group "Schedule". global_batch_size is the run's and has none.
void add_options(OptionTable& table, ScheduleOptions& options);

}  // namespace dimred::schedules
