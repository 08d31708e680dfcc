#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/name_pattern.h"
#include "merge/coefficients.h"

// Coefficients that a person gives in the place of a kind: for all tensors, or by their names.
namespace dimred::merge {

/// Coefficients of the tensors in whose names a pattern is found.
struct CoefficientRule {
  checkpoints::NamePattern pattern;
  Coefficients coefficients;
  std::string place;  // of its line, for messages
};

struct GivenCoefficients {
  Coefficients all;                    // of every tensor; empty where rules say more
  std::vector<CoefficientRule> rules;  // the first that matches a name wins
};

/// Reads a text file for `count` checkpoints, the oldest first. Either it has a number a line, and
/// `#` begins a comment; or it has lines `REGEX: c1 c2 ...`, split at their last `: `, and lines
/// that begin with `#` are comments. The weights have the divisor 1. Throws std::invalid_argument
/// with the line for another number of coefficients, a sum that differs from one by more than 1e-6,
/// and what is no number or no expression.
GivenCoefficients read_coefficients(const std::filesystem::path& file, std::size_t count);

/// Throws std::invalid_argument("[merge] PLACE needs ...") unless each line has `count` finite
/// values, whose sum is one within 1e-6. `place`: of the values of all tensors.
void require_coefficients(const GivenCoefficients& given,
                          std::size_t count,
                          std::string_view place);

/// The rule of each name, by its place in `rules`. Throws std::invalid_argument for a name without
/// one. `place`: of the rules, for messages.
std::vector<std::size_t> rules_of(const std::vector<std::string>& names,
                                  const std::vector<CoefficientRule>& rules,
                                  std::string_view place);

}  // namespace dimred::merge
