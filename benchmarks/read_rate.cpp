#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

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
    const auto image = image_of(static_cast<std::uint64_t>(i));
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

struct Series {
  std::string name;
  std::vector<double> ratios;  // seconds of the copy / seconds of ours
};

void print_json(const std::vector<Series>& all, double gigabytes) {
  std::printf("{\"gigabytes\": %.3f", gigabytes);
  for (auto series : all) {
    auto& ratios = series.ratios;
    std::ranges::sort(ratios);
    std::printf(",\n \"%s\": {\"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
                series.name.c_str(),
                ratios[ratios.size() / 2],
                ratios.front(),
                ratios.back());
  }
  std::printf("}\n");
}

std::vector<std::int64_t> order_of(std::int64_t count, bool shuffled) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    order[static_cast<std::size_t>(i)] =
        shuffled ? static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(i),
                                                      static_cast<std::uint64_t>(count),
                                                      1,
                                                      RandomPurpose::order,
                                                      0))
                 : i;
  return order;
}

}  // namespace

int main(int count, char** values) {
  require(count >= 2, "[read_rate] needs a folder");
  const fs::path folder = values[1];
  const std::int64_t megabytes = count > 2 ? std::stoll(values[2]) : 500;
  const int repeats = count > 3 ? std::stoi(values[3]) : 9;
  const auto samples = megabytes * 1'000'000 / static_cast<std::int64_t>(image_bytes);
  fs::create_directories(folder);
  write_files(folder, samples);
  std::vector<Series> all;
  for (const auto* form : {"tfrecord", "packed"}) {
    const auto file = folder / formatted("rate.{}", form);
    const bool packed = std::string(form) == "packed";
    const auto open = [&] { return packed ? open_packed(file) : open_tfrecord({.files = {file}}); };
    open();  // makes the index
    std::vector<Series> series;
    for (const auto* kind : {"first", "later", "shuffled"})
      for (const auto* copy : {"read", "memcpy"})
        series.push_back({formatted("{} {} / {}", form, kind, copy), {}});
    for (int repeat = 0; repeat <= repeats; ++repeat) {
      const auto dataset = open();
      const double first = seconds_of_epoch(*dataset, order_of(samples, false));
      const double copies[] = {seconds_of_read(file), seconds_of_memcpy(file)};
      const double later = seconds_of_epoch(*dataset, order_of(samples, false));
      const double shuffled = seconds_of_epoch(*dataset, order_of(samples, true));
      const double ours[] = {first, later, shuffled};
      if (repeat == 0) continue;  // warms the page cache
      for (std::size_t i = 0; i < series.size(); ++i)
        series[i].ratios.push_back(copies[i % 2] / ours[i / 2]);
    }
    all.insert(all.end(), series.begin(), series.end());
  }
  print_json(all, static_cast<double>(megabytes) / 1000);
  for (const auto* form : {"tfrecord", "packed"}) fs::remove(folder / formatted("rate.{}", form));
  fs::remove_all(folder / ".dimred");
}
