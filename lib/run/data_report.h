#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/setup.h"
#include "support/console.h"

namespace dimred::run {

/// Advice for when an epoch of `seconds` waited for data more than a twentieth of it: the
/// slowest stage with its cost, and the option; empty when it did not.
std::string advice(const data::LoaderReport& report, double seconds, std::int64_t threads);

/// Adds an epoch's report to setup.data.report, and says on the console what a person should know:
/// bad and damaged samples of all ranks with the first of them, what the data set notes (once), and
/// advice (once, when it is due over all epochs so far, for the rank that waited most). Called by
/// all ranks; cost: a short text of each goes to every rank.
void report_data(engine::Setup& setup,
                 const data::LoaderReport& report,
                 double seconds,
                 Console& console);

/// For manifest.json: costs are rank 0's, bad and damaged samples all ranks'.
nlohmann::json to_json(const engine::DataReport& report, bool with_validation);

}  // namespace dimred::run
