#pragma once

#include <cstdint>
#include <string>

#include "support/options.h"

// Rows that several commands have.
namespace dimred::data {

/// The row `dataset`, for DatasetOptions::kind.
void add_kind_option(OptionTable& table, std::string& kind, const std::string& help);

/// The rows stream_cache and stream_fetches, for a table with a row `data`.
void add_stream_options(OptionTable& table, double& cache, std::int64_t& fetches);

}  // namespace dimred::data
