#include "commands/device_memory.h"

#include "support/errors.h"

namespace dimred::commands {
namespace {

/// "Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.50 GiB is free":
/// from `begin` up to and without `end`, or the first line where torch says it in other words.
std::string between_words(const std::string& text,
                          const std::string& begin,
                          const std::string& end) {
  const auto from = text.find(begin);
  const auto to = from == std::string::npos ? from : text.find(end, from);
  if (to == std::string::npos) return text.substr(0, text.find('\n'));
  return text.substr(from, to - from);
}

std::string options_of(const std::string& command) {
  if (command == "evaluate" || command == "predict" || command == "verify")
    return "lower --batch_size";
  std::string common =
      "lower --batch_size (--gradient_accumulation splits a step's batch to the same result), or "
      "give --precision bfloat16, --cuda_graphs false or --data_on_device no";
  if (command != "stage2") return common;
  return common + "; the matrix takes 4 x n_component x M bytes, so a smaller one lowers it, too";
}

}  // namespace

std::string memory_advice(const std::string& message, const std::string& command) {
  return formatted("[device] out of memory: {}{}; {}",
                   between_words(message, "Tried to allocate", " is free"),
                   message.find(" is free") == std::string::npos ? "" : " is free",
                   options_of(command));
}

}  // namespace dimred::commands
