#pragma once

#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace dimred {

/// Splits a list of names at its white space.
inline std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

}  // namespace dimred
