#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/tools/toy_setup.h"

namespace dimred::engine {

/// 96 samples in eight files of 100 bytes, with at most a number of bytes here at a time.
class StreamedToy final : public data::PlanesDataset {
 public:
  explicit StreamedToy(std::int64_t room) : PlanesDataset({1, 28, 28}, 10), room_(room) {}
  std::int64_t size() const override { return toy_.size(); }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    return toy_.read(index, scratch);
  }
  std::string description() const override { return "streamed toy"; }
  std::vector<std::int64_t> shard_sizes() const override {
    return std::vector<std::int64_t>(8, 12);
  }
  std::optional<data::StreamCapacity> stream_capacity() const override {
    return data::StreamCapacity{.bytes = std::vector<std::int64_t>(8, 100), .room = room_};
  }

 private:
  ToyData toy_{96};
  std::int64_t room_;
};

}  // namespace dimred::engine
