#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <sstream>

#include "tests/tools/toy_setup.h"

namespace dimred::engine {

/// ToyData whose sample number `at`, counted from 1 over all that is read, raises SIGTERM.
class SignallingData final : public data::PlanesDataset {
 public:
  SignallingData(std::int64_t size, std::int64_t at)
      : PlanesDataset({1, 28, 28}, 10), data_(size), at_(at) {}
  std::int64_t size() const override { return data_.size(); }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    if (++read_ == at_) std::raise(SIGTERM);
    return data_.read(index, scratch);
  }
  std::string description() const override { return data_.description(); }

 private:
  ToyData data_;
  std::int64_t at_;
  mutable std::atomic<std::int64_t> read_ = 0;
};

/// A curve without its times.
inline std::string without_times(const std::string& curve) {
  std::istringstream lines(curve);
  std::string text;
  for (std::string line; std::getline(lines, line); text += '\n') {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; std::getline(fields, field, ','); ++i)
      if (i != 6 && i != 7) text += field + ',';
  }
  return text;
}

/// A path shared by a test and the process that its death test starts.
inline std::string shared_path(const std::string& path) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const auto name = std::string("DIMRED_SHARED_PATH_") + test->name();
  ::setenv(name.c_str(), path.c_str(), /*overwrite=*/0);
  return ::getenv(name.c_str());
}

}  // namespace dimred::engine
