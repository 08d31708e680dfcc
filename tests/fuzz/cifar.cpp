#include "data/open.h"
#include "tests/fuzz/fuzz.h"

// The test batch of CIFAR-10, or the names beside it, by the first byte.
std::vector<std::string> dimred::fuzz::seeds() {
  std::string names = "n";
  for (int i = 0; i < 10; ++i) names += "name " + std::to_string(i) + '\n';
  return {'b' + std::string(1, '\3') + std::string(3072, 'x'), names};
}

int dimred::fuzz::parse(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Folder folder;
  static const std::string record(3073, '\1');
  const std::string text(data + (size > 0), data + size);
  const bool names = size > 0 && data[0] == 'n';
  folder.write("data_batch_1.bin", record);
  folder.write("test_batch.bin", names ? record : text);
  folder.write("batches.meta.txt", names ? text : "");
  fuzz::bear_errors([&] {
    const auto dataset =
        data::open_dataset({.kind = "cifar", .path = folder.path}, /*train=*/false);
    std::vector<std::uint8_t> scratch;
    for (std::int64_t i = 0; i < dataset->size(); ++i)
      if (dataset->read(i, scratch).label >= dataset->classes()) __builtin_trap();
  });
  return 0;
}
