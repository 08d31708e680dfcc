#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace dimred::data {

/// Cost and findings of a pass so far.
struct LoaderReport {
  double seconds_waited = 0;  // next() for a batch that was not ready
  double mean_ready = 0;      // batches ready when next() was called
  std::int64_t batches = 0;   // delivered
  std::int64_t samples = 0;   // prepared; the three are summed over threads, in seconds, and are
  double read_seconds = 0;    // measured where there is more to do than to normalise few values
  double decode_seconds = 0;
  double transform_seconds = 0;
  double fetch_seconds = 0;           // the same of files that lie elsewhere; not in read_seconds
  std::int64_t bad_samples = 0;       // replaced or dropped
  std::int64_t damaged_samples = 0;   // used all the same, see Image::damage
  std::vector<std::string> messages;  // the first few of both
};

/// Adds `part` to `whole`: sums, the mean over the batches of both, and the first few messages.
void add(LoaderReport& whole, const LoaderReport& part);

/// Keeps the text if it is among the first few.
void take_note(LoaderReport& report, std::string text);

/// The exception with a sample's origin unless it is named already.
std::runtime_error with_origin(const std::runtime_error& error, const std::string& origin);

}  // namespace dimred::data
