#include "data/loader_report.h"

#include <stdexcept>
#include <utility>

#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::size_t most_messages = 5;

}  // namespace

void add(LoaderReport& whole, const LoaderReport& part) {
  const auto batches = static_cast<double>(whole.batches), more = static_cast<double>(part.batches);
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
  if (report.messages.size() < most_messages) report.messages.push_back(std::move(text));
}

std::exception_ptr with_origin(const std::exception_ptr& failure, const std::string& origin) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    if (text.find(origin) != std::string::npos) return failure;
    return std::make_exception_ptr(std::runtime_error(formatted("{}: {}", origin, text)));
  } catch (...) {
    return failure;
  }
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an unknown exception";
  }
}

}  // namespace dimred::data
