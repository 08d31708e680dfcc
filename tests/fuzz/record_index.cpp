#include "data/record_index.h"

#include "tests/fuzz/fuzz.h"

// The index in the cache. Its digest is set right, so that what lies behind is reached.
std::vector<std::string> dimred::fuzz::seeds() {
  data::RecordIndex index;
  index.shards.push_back({.identity = {.size = 1000, .modified = 5, .sample = std::string(32, 'a')},
                          .digest = std::string(32, 'b'),
                          .samples = 2,
                          .remark = "remark"});
  index.entries = {{.offset = 0, .size = 100, .shard = 0, .label = 3},
                   {.offset = 100, .size = 900, .shard = 0, .label = 4}};
  index.problems = {{.shard = 0, .offset = 7, .text = "text"}};
  index.problem_count = 1;
  return {data::to_bytes(index)};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  const auto bytes = fuzz::with_right_digest({data, size});
  fuzz::bear_errors([&] { data::index_from_bytes(bytes); });
  return 0;
}
