#include "commands/device_memory.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <utility>

#include "support/errors.h"

namespace dimred::commands {
namespace {

/// The part "Tried to allocate ... 1.50 GiB is free" of torch's message, or the first line where
/// torch says it in other words.
std::string shortage(const std::string& text) {
  const std::string end = " is free";
  const auto from = text.find("Tried to allocate");
  const auto to = text.find(end, from);
  if (to == std::string::npos) return text.substr(0, text.find('\n'));
  return text.substr(from, to + end.size() - from);
}

std::string options_of(const std::string& command) {
  if (command == "evaluate" || command == "predict" || command == "verify")
    return "lower --batch_size";
  std::string common =
      "lower --batch_size, or give --gradient_accumulation N (the same result from smaller "
      "passes), --precision bfloat16, --cuda_graphs false or --data_on_device no";
  if (command != "stage2") return common;
  return common +
         "; a smaller n_component also helps, because the matrix takes 4 x n_component x M bytes";
}

/// Bytes of "20.00 GiB" at `place`, as torch writes sizes.
std::optional<double> bytes_at(const std::string& text, std::size_t place) {
  constexpr std::array<std::pair<const char*, double>, 4> units{
      {{"bytes", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}}};
  std::istringstream in(text.substr(place, 40));
  double count = 0;
  std::string unit;
  if (!(in >> count >> unit)) return std::nullopt;
  for (const auto& [name, size] : units)
    if (unit.starts_with(name)) return count * size;
  return std::nullopt;
}

std::optional<double> bytes_behind(const std::string& text, const std::string& words) {
  const auto found = text.find(words);
  if (found == std::string::npos) return std::nullopt;
  return bytes_at(text, found + words.size());
}

/// The size that stands before `words`, in bytes: "... and 1.00 GiB is reserved".
std::optional<double> bytes_before(const std::string& text, const std::string& words) {
  const auto found = text.find(words);
  if (found == std::string::npos || found < 2) return std::nullopt;
  const auto unit = text.rfind(' ', found - 1);
  if (unit == std::string::npos || unit == 0) return std::nullopt;
  return bytes_at(text, text.rfind(' ', unit - 1) + 1);
}

}  // namespace

bool is_memory_shortage(const std::string& message) {
  constexpr std::array texts{"CUDA out of memory",
                             "CUDA error: out of memory",
                             "CUBLAS_STATUS_ALLOC_FAILED",
                             "CUDNN_STATUS_ALLOC_FAILED",
                             "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                             "CUSOLVER_STATUS_ALLOC_FAILED"};
  return std::ranges::any_of(
      texts, [&](const char* text) { return message.find(text) != std::string::npos; });
}

std::optional<std::int64_t> most_samples(const std::string& message, std::int64_t batch) {
  const auto wanted = bytes_behind(message, "Tried to allocate ");
  const auto free = bytes_behind(message, " of which ");
  const auto had = bytes_behind(message, "Of the allocated memory ");
  if (!wanted || !free || !had) return std::nullopt;
  const auto unused = bytes_before(message, " is reserved by PyTorch but unallocated");
  const double share = (*had + *free + unused.value_or(0)) / (*had + *wanted);
  if (!(share < 1)) return std::nullopt;  // in pieces that are each too small
  return static_cast<std::int64_t>(std::floor(share * static_cast<double>(batch)));
}

std::string memory_advice(const std::string& message,
                          const std::string& command,
                          std::int64_t batch) {
  const auto most = batch > 0 ? most_samples(message, batch) : std::nullopt;
  return formatted(
      "[device] out of memory: {}; {}{}",
      shortage(message),
      most ? formatted("a pass has {} samples, but at most {} can fit; ", batch, *most) : "",
      options_of(command));
}

}  // namespace dimred::commands
