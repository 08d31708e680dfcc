#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

// Three kinds of failure, three kinds of exception (docs/decisions.md):
//   the caller's fault  -> std::invalid_argument  (exit code 2)   require()
//   the environment's   -> std::runtime_error     (exit code 1)   require_environment()
//   our own bug         -> std::logic_error       (exit code 1)   check()
// A text starts with its place: "[pca::fit] needs n - 1 >= k, received n = 20, k = 32".
namespace dimred {

/// The parts printed one after another, as by operator<<.
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// Throws std::invalid_argument("[place] rule...") unless `holds`.
template <class... Parts>
void require(bool holds, std::string_view place, const Parts&... rule) {
  if (!holds) throw std::invalid_argument(concat('[', place, "] ", rule...));
}

/// Throws std::runtime_error("[place] what...") unless `holds`; for files, devices, libraries.
template <class... Parts>
void require_environment(bool holds, std::string_view place, const Parts&... what) {
  if (!holds) throw std::runtime_error(concat('[', place, "] ", what...));
}

/// Throws std::logic_error with the source line unless `holds`; for invariants of our own code.
/// (Builtins, as clang 14 has no std::source_location and clang-tidy must read this file.)
inline void check(bool holds,
                  std::string_view what,
                  const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) throw std::logic_error(concat("internal: ", what, " (", file, ':', line, ')'));
}

}  // namespace dimred
