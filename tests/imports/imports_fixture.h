#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "imports/fastnn.h"
#include "imports/mindspore.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::imports {

/// Foreign files in a folder of their own, and what becomes of them.
class Imports : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  Import fastnn(const std::string& text) { return read_fastnn(file("hyper.txt", text)); }

  static const ImportedKey& line(const Import& import, const std::string& key) {
    const auto found = std::ranges::find(import.lines, key, &ImportedKey::key);
    if (found == import.lines.end()) throw std::runtime_error("no line " + key);
    return *found;
  }
  static std::map<std::string, std::string> settings(const Import& import) {
    std::map<std::string, std::string> all;
    for (const auto& entry : entries_of(import)) {
      EXPECT_FALSE(all.contains(entry.name)) << entry.name << " is set twice";
      all[entry.name] = entry.text;
    }
    return all;
  }
  static std::string refusal(const Import& import) {
    try {
      require_overridden(import, [](std::string_view) { return false; });
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  }
  template <class Call>
  static std::string message(const Call& call) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace dimred::imports
