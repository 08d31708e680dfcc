#include "data/loader_report.h"

#include <stdexcept>
#include <utility>

#include "support/errors.h"

namespace dimred::data {
namespace {

constexpr std::size_t most_messages = 5;

}  // namespace

void move_counts(LoaderReport& part, LoaderReport& whole) {
  whole.samples += part.samples;
  whole.read_seconds += part.read_seconds;
  whole.decode_seconds += part.decode_seconds;
  whole.transform_seconds += part.transform_seconds;
  whole.bad_samples += part.bad_samples;
  whole.damaged_samples += part.damaged_samples;
  for (auto& message : part.messages) {
    if (whole.messages.size() < most_messages) whole.messages.push_back(std::move(message));
  }
  part = {};
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
    return std::make_exception_ptr(std::runtime_error(concat(origin, ": ", text)));
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
