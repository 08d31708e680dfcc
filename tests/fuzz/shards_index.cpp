#include "data/shard_index.h"
#include "tests/fuzz/fuzz.h"

// The index that lies beside streamed files. Its digest is set right, so that what lies behind is
// reached.
std::vector<std::string> dimred::fuzz::seeds() {
  data::RecordIndex index;
  index.shards.push_back({.identity = {.size = 1000, .modified = 5, .sample = std::string(32, 'a')},
                          .digest = std::string(32, 'b'),
                          .samples = 1});
  index.entries = {{.offset = 0, .size = 100, .shard = 0, .label = 3}};
  return {data::to_bytes(data::ShardIndices{{"train-0", {.bytes = 1000, .index = index}}}),
          data::to_bytes(data::ShardIndices{})};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::with_right_digest({data, size});
  fuzz::bear_errors([&] { data::indices_from_bytes(bytes); });
  return 0;
}
