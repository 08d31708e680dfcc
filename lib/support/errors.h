#pragma once

#include <functional>
#include <stdexcept>
#include <string>

#include "support/formatted.h"

// Three kinds of failure, three kinds of exception (docs/decisions.md):
//   the caller's fault  -> std::invalid_argument  (exit code 2)   require(), refuse()
//   the environment's   -> std::runtime_error     (exit code 1)   require_environment(),
//                                                                 fail_environment()
//   our own bug         -> std::logic_error       (exit code 1)   check()
// A text starts with its scope: "[pca] needs n - 1 >= k, received n = 20, k = 32".
namespace dimred {

/// Throws std::invalid_argument(formatted(rule, values...)).
template <class... Values>
[[noreturn]] void refuse(std::type_identity_t<FormatString<sizeof...(Values)>> rule,
                         const Values&... values) {
  throw std::invalid_argument(formatted(rule, values...));
}

/// Throws std::runtime_error(formatted(rule, values...)).
template <class... Values>
[[noreturn]] void fail_environment(std::type_identity_t<FormatString<sizeof...(Values)>> rule,
                                   const Values&... values) {
  throw std::runtime_error(formatted(rule, values...));
}

/// Throws std::invalid_argument(formatted(rule, values...)) unless `holds`.
template <class... Values>
void require(bool holds,
             std::type_identity_t<FormatString<sizeof...(Values)>> rule,
             const Values&... values) {
  if (!holds) refuse(rule, values...);
}

/// Throws std::runtime_error(formatted(rule, values...)) unless `holds`; for files, devices,
/// libraries.
template <class... Values>
void require_environment(bool holds,
                         std::type_identity_t<FormatString<sizeof...(Values)>> rule,
                         const Values&... values) {
  if (!holds) fail_environment(rule, values...);
}

/// Throws std::logic_error with the source line unless `holds`; for invariants of our own code.
/// (Builtins, as clang 14 has no std::source_location and clang-tidy must read this file.)
inline void check(bool holds,
                  std::string_view what,
                  const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) throw std::logic_error(formatted("internal: {} ({}:{})", what, file, line));
}

/// Runs `work`; returns its error as a text with its kind, empty when it throws none.
std::string failure_of(const std::function<void()>& work);

/// Throws it again, as std::invalid_argument, std::logic_error or else std::runtime_error.
[[noreturn]] void throw_failure(const std::string& failure);

}  // namespace dimred
