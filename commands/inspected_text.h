#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "commands/text_table.h"
#include "support/formatted.h"

namespace dimred::commands {

/// The contents of files and folders, as text for a person. A damaged file is an exception; in a
/// folder it is a line, so that the others are shown too.
struct InspectedText {
  std::string text;
  bool damaged = false;
  std::string verdict = "holds damaged files";  // where it is
  void add(const InspectedText& part) {
    text += part.text;
    damaged = damaged || part.damaged;
  }
};

/// describe(path), or one line, behind `indent`, that says why the path is damaged.
template <class Describe>
InspectedText attempted(const std::filesystem::path& path,
                        const std::string& indent,
                        const Describe& describe) {
  try {
    return {describe(path)};
  } catch (const std::exception& error) {
    return {text_row(indent + path.filename().string(),
                     formatted("{}DAMAGED: {}", indent, error.what())),
            true};
  }
}

/// One line for each path: its name and what `describe` says, or why it is damaged.
InspectedText inspect_each(
    const std::vector<std::filesystem::path>& paths,
    const std::function<std::string(const std::filesystem::path&)>& describe);

}  // namespace dimred::commands
