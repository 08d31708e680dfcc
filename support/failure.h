#pragma once

#include <functional>
#include <string>

// How one process tells another that something failed, and of what kind (support/errors.h).
namespace dimred {

/// Runs `work`; the error that it throws as a text that keeps its kind, empty when it throws none.
std::string failure_of(const std::function<void()>& work);

/// Throws it again, as std::invalid_argument, std::logic_error or else std::runtime_error.
[[noreturn]] void throw_failure(const std::string& failure);

}  // namespace dimred
