#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "support/console.h"
#include "training/setup.h"

namespace dimred::training {

/// What would help when an epoch of `seconds` waited for data more than a twentieth of it: the
/// slowest stage with its cost, and the option; empty when it did not.
std::string advice(const data::LoaderReport& report, double seconds, std::int64_t threads);

/// Adds an epoch's report to setup.data_report, and says on the console what a person should know:
/// advice, bad samples (summed over ranks, if they are skipped), damaged ones, what the data set
/// notes. Called by all ranks.
void tell(Setup& setup, const data::LoaderReport& report, double seconds, Console& console);

/// For manifest.json: of rank 0.
nlohmann::json to_json(const data::LoaderReport& report);

}  // namespace dimred::training
