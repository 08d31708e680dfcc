#pragma once

#include <cstdint>
#include <optional>
#include <string>

// What a device's memory that is short means for the options.
namespace dimred::commands {

/// True for what torch, CUDA and its libraries say when they get no memory of a device.
bool is_memory_shortage(const std::string& message);

/// The largest part of a batch of `batch` samples that can fit, from the numbers of torch's
/// message: what the failing pass had and wanted is the least that the batch needs, what it had and
/// what is free all that there is. A smaller batch needs at least in proportion to its samples less
/// of what grows with them, so no larger one fits, and this one need not. Nullopt: the message has
/// no such numbers.
std::optional<std::int64_t> most_samples(const std::string& message, std::int64_t batch);

/// One line of what a device's memory was asked for, out of torch's message, which options of
/// `command` (stage1, stage2, evaluate, ...) lower it and, of a pass over `batch` > 0 samples, how
/// many can fit at most.
std::string memory_advice(const std::string& message,
                          const std::string& command,
                          std::int64_t batch = 0);

}  // namespace dimred::commands
