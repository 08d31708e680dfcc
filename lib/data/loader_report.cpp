#include "data/loader_report.h"

#include <utility>

#include "support/errors.h"

namespace dimred::data {

void add(LoaderReport& whole, const LoaderReport& part) {
  const double batches = whole.batches, more = part.batches;
  if (batches + more > 0)
    whole.mean_ready = (whole.mean_ready * batches + part.mean_ready * more) / (batches + more);
  whole.seconds_waited += part.seconds_waited;
  whole.batches += part.batches;
  whole.samples += part.samples;
  whole.read_seconds += part.read_seconds;
  whole.decode_seconds += part.decode_seconds;
  whole.transform_seconds += part.transform_seconds;
  whole.fetch_seconds += part.fetch_seconds;
  whole.bad_samples += part.bad_samples;
  whole.damaged_samples += part.damaged_samples;
  for (const auto& message : part.messages) take_note(whole, message);
}

void take_note(LoaderReport& report, std::string text) {
  constexpr std::size_t most = 5;
  if (report.messages.size() < most) report.messages.push_back(std::move(text));
}

std::runtime_error with_origin(const std::runtime_error& error, const std::string& origin) {
  const std::string_view text = error.what();
  if (text.find(origin) != std::string_view::npos) return error;
  return std::runtime_error(formatted("{}: {}", origin, text));
}

}  // namespace dimred::data
