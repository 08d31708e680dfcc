#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/write_records.h"

namespace dimred::data {

/// The findings of a look at a data set's samples.
struct Survey {
  std::int64_t samples = 0;                // looked at
  std::vector<std::int64_t> class_counts;  // of them, by label
  std::map<std::string, std::int64_t>
      encodings;  // "planes", "jpeg", "png", with "grey" or "colour"
  std::int64_t bytes = 0;
  ImageShape smallest, largest;  // height and width each by itself
  std::int64_t problem_count = 0;
  std::vector<std::string> problems;  // the first 10 by index, with their origin
};

/// Reads `count` samples, evenly spread (index i size / count), and their headers; with `decode`
/// all their pixels too. A sample that cannot be read, or only in part, is a problem, not an
/// exception. Throws std::invalid_argument unless 1 <= count <= size.
Survey survey(const Dataset& dataset,
              std::int64_t count,
              std::int64_t threads,
              const Progress& progress,
              bool decode = false);

}  // namespace dimred::data
