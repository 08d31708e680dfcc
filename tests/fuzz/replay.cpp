#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "support/random.h"
#include "tests/fuzz/fuzz.h"

// Runs a target on its seeds and on N mutations of them, the same in every run:
//   fuzz_NAME N [FILE...]    with files (of a fuzzer's crash) on these alone
namespace {

using dimred::RandomStream;

void run(const std::string& input) {
  // A copy of exactly its size, so that a read beyond it is seen.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

/// One to eight changes: a bit, a byte, a cut, a repeated part, a large number.
std::string mutated(std::string text, RandomStream& random) {
  for (auto changes = 1 + random.below(8); changes > 0 && !text.empty(); --changes) {
    const auto size = static_cast<std::uint32_t>(text.size());
    const auto at = random.below(size);
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ 1 << random.below(8));
        break;
      case 1:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.insert(at, text.substr(random.below(size), random.below(64)));
        break;
      case 4:
        text.replace(at, 4, std::string(4, random.below(2) == 0 ? '\xff' : '\x7f'));
        break;
      default:
        text.erase(at, 1 + random.below(8));
    }
  }
  return text;
}

std::string content(const char* file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int count, char** values) {
  const auto seeds = dimred::fuzz::seeds();
  const long runs = count > 1 ? std::strtol(values[1], nullptr, 10) : 1000;
  for (int i = 2; i < count; ++i) run(content(values[i]));
  if (count > 2) return 0;
  run("");
  for (const auto& seed : seeds) run(seed);
  for (long i = 0; i < runs; ++i) {
    RandomStream random(1, dimred::RandomPurpose::subset, 0, static_cast<std::uint64_t>(i));
    run(mutated(seeds[static_cast<std::size_t>(i) % seeds.size()], random));
  }
  std::printf("%ld mutations of %zu seeds\n", runs, seeds.size());
}
