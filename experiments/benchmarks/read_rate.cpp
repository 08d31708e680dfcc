#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/order.h"
#include "data/packed.h"
#include "data/record_readers.h"
#include "data/tf_example.h"
#include "data/tfrecord.h"
#include "support/errors.h"
#include "support/random.h"

// How fast TFRecord and packed files are read from the page cache, against a copy of the same bytes
// in the same run: read(2) of the file in parts of an image into one buffer, and memcpy out of a
// mapping. A sample counts as read when its bytes have been copied into a buffer, as a decoder
// would take them. first: the epoch in which checksums are verified; later: an epoch after it.
// CPU seconds of the one thread: nothing waits for a disk here, and other load does not count.
//   read_rate FOLDER [MEGABYTES [REPEATS]]    prints JSON
namespace {

namespace fs = std::filesystem;
using namespace dimred;
using namespace dimred::data;

constexpr std::size_t image_bytes = 110'000;  // ImageNet's mean

/// Bytes that begin as a JPEG does; nothing decodes them here.
std::string image_of(std::uint64_t number) {
  std::string image(image_bytes, '\0');
  RandomStream random(1, RandomPurpose::subset, 0, number);
  for (std::size_t i = 0; i + 4 <= image.size(); i += 4) {
    const auto word = random.next();
    std::memcpy(image.data() + i, &word, 4);
  }
  image.replace(0, 4, "\xff\xd8\xff\xe0");
  return image;
}

Sample sample_of(const std::string& image) {
  return {.encoding = Encoding::jpeg,
          .bytes = {reinterpret_cast<const std::uint8_t*>(image.data()), image.size()},
          .label = 1};
}

void write_files(const fs::path& folder, std::int64_t count) {
  PackedWriter packed(folder / "rate.packed");
  AtomicFile records(folder / "rate.tfrecord");
  for (std::int64_t i = 0; i < count; ++i) {
    const auto image = image_of(i);
    packed.add(sample_of(image));
    const auto record =
        to_tfrecord(to_message({.encoded = sample_of(image).bytes, .format = "jpeg", .label = 1}));
    records.append(std::as_bytes(std::span(record)));
  }
  packed.finish("random bytes", {"0", "1"});
  records.commit();
}

/// CPU seconds of this thread.
class Stopwatch {
 public:
  double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double start_ = now();
};

double seconds_of_read(const fs::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  check(descriptor >= 0, "open");
  std::vector<char> buffer(image_bytes);
  const Stopwatch watch;
  while (::read(descriptor, buffer.data(), buffer.size()) > 0) {
  }
  const double seconds = watch.seconds();
  ::close(descriptor);
  return seconds;
}

double seconds_of_memcpy(const fs::path& file) {
  const MappedFile mapped(file);
  std::vector<std::uint8_t> buffer(image_bytes);
  const Stopwatch watch;
  for (std::size_t at = 0; at < mapped.bytes().size(); at += buffer.size()) {
    const auto part =
        mapped.bytes().subspan(at, std::min(buffer.size(), mapped.bytes().size() - at));
    std::memcpy(buffer.data(), part.data(), part.size());
  }
  return watch.seconds();
}

/// An epoch in the order given; the bytes are copied out.
double seconds_of_epoch(const Dataset& dataset, const std::vector<std::int64_t>& order) {
  std::vector<std::uint8_t> scratch, buffer(image_bytes + 64);
  const Stopwatch watch;
  for (const auto index : order) {
    const auto sample = dataset.read(index, scratch);
    std::memcpy(buffer.data(), sample.bytes.data(), std::min(sample.bytes.size(), buffer.size()));
  }
  return watch.seconds();
}

std::vector<std::int64_t> order_of(std::int64_t count, bool shuffled) {
  const Order order{.seed = 1, .size = count, .shuffled = shuffled};
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(order.at(/*epoch=*/0, i));
  return indices;
}

}  // namespace

int main(int count, char** values) {
  require(count >= 2,
          "[read_rate] needs a folder for its test files: read_rate FOLDER [MEGABYTES] [REPEATS]");
  const fs::path folder = values[1];
  const std::int64_t megabytes = count > 2 ? std::stoll(values[2]) : 500;
  const int repeats = count > 3 ? std::stoi(values[3]) : 9;
  const auto samples = megabytes * 1'000'000 / static_cast<std::int64_t>(image_bytes);
  fs::create_directories(folder);
  write_files(folder, samples);
  nlohmann::ordered_json ratios;  // seconds of the copy / seconds of ours
  for (const auto* form : {"tfrecord", "packed"}) {
    const auto file = folder / formatted("rate.{}", form);
    const bool packed = std::string(form) == "packed";
    const auto open = [&] { return packed ? open_packed(file) : open_tfrecord({.files = {file}}); };
    open();  // makes the index
    for (int repeat = 0; repeat <= repeats; ++repeat) {
      const auto dataset = open();
      using Seconds = std::pair<const char*, double>;
      const Seconds first{"first", seconds_of_epoch(*dataset, order_of(samples, false))};
      const Seconds copies[] = {{"read", seconds_of_read(file)},
                                {"memcpy", seconds_of_memcpy(file)}};
      const Seconds later{"later", seconds_of_epoch(*dataset, order_of(samples, false))};
      const Seconds shuffled{"shuffled", seconds_of_epoch(*dataset, order_of(samples, true))};
      if (repeat == 0) continue;  // warms the page cache
      for (const auto& [epoch, ours] : {first, later, shuffled})
        for (const auto& [copy, seconds] : copies)
          ratios[formatted("{} {} / {}", form, epoch, copy)].push_back(seconds / ours);
    }
    fs::remove(file);
  }
  fs::remove_all(folder / ".dimred");
  std::cout << nlohmann::ordered_json{{"gigabytes", megabytes / 1000.0}, {"ratios", ratios}}.dump()
            << '\n';
}
