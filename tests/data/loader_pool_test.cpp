#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory_resource>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "data/encode.h"
#include "data/loader.h"
#include "tests/data/constructed_dataset.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::data {
namespace {

/// Images of differing sizes as PNG files in memory; the set indices cannot be decoded.
struct EncodedDataset : ConstructedDataset {
  std::vector<std::string> files;
  std::set<std::int64_t> bad;

  explicit EncodedDataset(std::int64_t size) : ConstructedDataset(size, {3, 0, 0}) {
    for (std::int64_t index = 0; index < size; ++index) {
      const ImageShape shape{3, 9 + index % 5, 12 + index % 7};
      std::vector<std::uint8_t> pixels(static_cast<std::size_t>(shape.size()));
      for (std::size_t i = 0; i < pixels.size(); ++i)
        pixels[i] = pixel(index, static_cast<std::int64_t>(i));
      files.push_back(to_png(pixels, shape));
    }
  }

  std::optional<ImageShape> shape() const override { return std::nullopt; }
  Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    const auto& file = files[static_cast<std::size_t>(index)];
    scratch.assign(file.begin(), file.end());
    if (bad.contains(index)) scratch.resize(scratch.size() / 4);
    return {.encoding = Encoding::png, .bytes = scratch, .label = index % 7};
  }
};

Preprocessing cropped() {
  return {.mean = {0.3, 0.4, 0.5},
          .deviation = {0.2, 0.3, 0.4},
          .flip = true,
          .seed = 21,
          .crop = {.cut = CropMode::random_area, .size = 8},
          .jitter = {.brightness = 0.4, .saturation = 0.5}};
}

std::vector<Batch> pool_pass(const Dataset& dataset,
                             const LoaderOptions& options,
                             const Preprocessing& preprocessing = cropped(),
                             std::int64_t first_step = 0) {
  Loader loader(
      dataset, {.seed = 9, .size = dataset.size()}, preprocessing, options, 2, first_step);
  std::vector<Batch> batches;
  while (auto batch = loader.next()) batches.push_back(std::move(*batch));
  return batches;
}

void expect_equal_batches(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].images, b[i].images);
    EXPECT_EQ(a[i].labels, b[i].labels);
    EXPECT_EQ(a[i].indices, b[i].indices);
    EXPECT_EQ(a[i].position, b[i].position);
    EXPECT_EQ(a[i].global_count, b[i].global_count);
  }
}

TEST(LoaderPool, AnyNumberOfThreadsGivesTheSameImages) {
  const EncodedDataset dataset(83);
  const auto expected = pool_pass(dataset, {.batch_size = 10});
  ASSERT_EQ(expected.size(), 9U);
  EXPECT_EQ(expected.front().shape, (ImageShape{3, 8, 8}));
  for (const std::int64_t threads : {2, 5, 16}) {
    for (const std::int64_t parallel : {0, 1, 3}) {
      expect_equal_batches(
          pool_pass(dataset, {.batch_size = 10, .threads = threads, .parallel_batches = parallel}),
          expected);
    }
  }
}

TEST(LoaderPool, RanksAndAResumeSeeTheSameImages) {
  const EncodedDataset dataset(83);
  const auto whole = pool_pass(dataset, {.batch_size = 10, .threads = 3});
  const auto tail = pool_pass(dataset, {.batch_size = 10, .threads = 2}, cropped(), 4);
  expect_equal_batches(tail, {whole.begin() + 4, whole.end()});
  for (std::size_t step = 0; step < whole.size(); ++step) {
    std::pmr::vector<float> images;
    for (int rank = 0; rank < 8; ++rank) {
      const auto part =
          pool_pass(dataset, {.batch_size = 10, .rank = rank, .ranks = 8, .threads = 2}).at(step);
      images.insert(images.end(), part.images.begin(), part.images.end());
    }
    EXPECT_EQ(images, whole[step].images);
    if (step == 1) break;  // one whole batch and its neighbour say it
  }
}

TEST(LoaderPool, InterleavedBatchesHoldTheSameValues) {
  const EncodedDataset dataset(20);
  const auto planes = pool_pass(dataset, {.batch_size = 10});
  const auto interleaved = pool_pass(dataset, {.batch_size = 10, .order = PixelOrder::interleaved});
  for (std::size_t step = 0; step < planes.size(); ++step) {
    for (std::size_t i = 0; i < 10; ++i) {
      for (std::size_t at = 0; at < 192; ++at) {
        EXPECT_EQ(interleaved[step].images[192 * i + at / 64 + 3 * (at % 64)],
                  planes[step].images[192 * i + at]);
      }
    }
  }
}

TEST(LoaderPool, PlanesMayBeInterleavedToo) {
  const ConstructedDataset dataset(20, {3, 5, 4});
  const Preprocessing shifted{
      .mean = {0.1, 0.2, 0.3}, .deviation = {1, 2, 3}, .pad = 2, .flip = true};
  const auto planes = pool_pass(dataset, {.batch_size = 20}, shifted).at(0);
  const auto other =
      pool_pass(dataset, {.batch_size = 20, .order = PixelOrder::interleaved}, shifted).at(0);
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t at = 0; at < 60; ++at)
      EXPECT_EQ(other.images[60 * i + at / 20 + 3 * (at % 20)], planes.images[60 * i + at]);
  }
}

TEST(LoaderPool, ABadSampleFailsWithItsOriginAfterTheBatchesBefore) {
  EncodedDataset dataset(40);
  const Order order{.seed = 9, .size = 40};
  dataset.bad = {order.at(2, 25)};
  for (const std::int64_t threads : {1, 4}) {
    Loader loader(dataset, order, cropped(), {.batch_size = 10, .threads = threads}, 2);
    ASSERT_TRUE(loader.next());
    ASSERT_TRUE(loader.next());
    const auto text = thrown<std::runtime_error>([&] { loader.next(); });
    EXPECT_TRUE(text.starts_with("sample " + std::to_string(order.at(2, 25)) +
                                 ": [png] the file ends early"))
        << text;
  }
}

TEST(LoaderPool, ABadSampleIsReplacedByTheNextOnAnyRank) {
  EncodedDataset dataset(40);
  const Order order{.seed = 9, .size = 40};
  dataset.bad = {3, 4, 39};
  const LoaderOptions options{.batch_size = 40, .threads = 3, .bad_sample = BadSample::replace};
  Loader loader(dataset, order, cropped(), options, 2);
  const auto batch = loader.next();
  ASSERT_TRUE(batch);
  EXPECT_EQ(batch->count(), 40);
  for (std::size_t i = 0; i < 40; ++i) {
    const auto drawn = order.at(2, static_cast<std::int64_t>(i));
    const auto expected = drawn == 3 || drawn == 4 ? 5 : drawn == 39 ? 0 : drawn;
    EXPECT_EQ(batch->indices[i], expected);
    EXPECT_EQ(batch->labels[i], expected % 7);
  }
  const auto report = loader.report();
  EXPECT_EQ(report.bad_samples, 3);  // 3 leads to 4, which is not counted twice
  EXPECT_EQ(report.samples, 40);
  EXPECT_FALSE(report.messages.empty());
  std::pmr::vector<float> joined;
  for (int rank = 0; rank < 3; ++rank) {
    auto part = options;
    part.rank = rank;
    part.ranks = 3;
    const auto images = pool_pass(dataset, part).at(0).images;
    joined.insert(joined.end(), images.begin(), images.end());
  }
  EXPECT_EQ(joined, batch->images);
}

TEST(LoaderPool, EvaluationDropsABadSample) {
  EncodedDataset dataset(10);
  dataset.bad = {0, 4, 9};
  const Order order{.seed = 0, .size = 10, .shuffled = false};
  Loader loader(dataset, order, cropped(), {.batch_size = 10, .bad_sample = BadSample::drop}, 0);
  const auto batch = loader.next();
  EXPECT_EQ(batch->indices, (std::vector<std::int64_t>{1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(batch->images.size(), 7U * 192);
  EncodedDataset sound(10);
  const auto expected = Loader(sound, order, cropped(), {.batch_size = 10}, 0).next()->images;
  EXPECT_TRUE(
      std::equal(batch->images.end() - 192, batch->images.end(), expected.begin() + 8 * 192));
}

TEST(LoaderPool, MemoryBoundsTheBatchesAhead) {
  const EncodedDataset dataset(40);
  const auto prefetch = [&](std::int64_t memory) {
    return Loader(dataset,
                  {.size = 40},
                  cropped(),
                  {.batch_size = 10, .prefetch = 8, .memory = memory},
                  0)
        .prefetch();
  };
  constexpr std::int64_t batch = 10 * 192 * 4;
  EXPECT_EQ(prefetch(0), 8);
  EXPECT_EQ(prefetch(4 * batch), 3);  // and one with the caller
  EXPECT_EQ(prefetch(1), 1);
}

TEST(LoaderPool, SaysWhatItCost) {
  const EncodedDataset dataset(40);
  Loader loader(dataset, {.size = 40}, cropped(), {.batch_size = 10, .threads = 2}, 0);
  while (auto batch = loader.next()) loader.recycle(std::move(*batch));
  const auto report = loader.report();
  EXPECT_EQ(report.batches, 4);
  EXPECT_EQ(report.samples, 40);
  EXPECT_GT(report.decode_seconds, 0);
  EXPECT_GT(report.transform_seconds, 0);
}

/// Planes that are cropped cost as files do, but for the decoding; small ones that are only
/// normalised are not timed.
TEST(LoaderPool, SaysWhatCroppedPlanesCost) {
  const ConstructedDataset dataset(40, {3, 16, 20});
  const auto cost = [&](const Preprocessing& preprocessing) {
    Loader loader(dataset, {.size = 40}, preprocessing, {.batch_size = 10}, 0);
    while (auto batch = loader.next()) loader.recycle(std::move(*batch));
    return loader.report();
  };
  const auto report = cost(cropped());
  EXPECT_EQ(report.decode_seconds, 0);
  EXPECT_GT(report.transform_seconds, report.read_seconds);
  auto jittered = cropped();
  jittered.crop = {};
  EXPECT_GT(cost(jittered).transform_seconds, 0);
  jittered.jitter = {};
  EXPECT_EQ(cost(jittered).transform_seconds, 0);
}

/// With one batch ahead none is ready when the next is asked for at once, and one is after a while.
TEST(LoaderPool, SaysHowManyBatchesWereReady) {
  const auto mean_ready = [](std::chrono::microseconds read, std::chrono::milliseconds step) {
    ConstructedDataset dataset(8, {3, 8, 8});
    dataset.read_time = read;
    const Preprocessing plain{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};
    Loader loader(dataset, {.size = 8}, plain, {.batch_size = 1, .prefetch = 1}, 0);
    do std::this_thread::sleep_for(step);
    while (loader.next());
    return loader.report().mean_ready;
  };
  EXPECT_LT(mean_ready(std::chrono::milliseconds(20), std::chrono::milliseconds(0)), 0.5);
  EXPECT_GT(mean_ready(std::chrono::microseconds(0), std::chrono::milliseconds(40)), 0.5);
}

/// As under a limit on processes or memory: no thread is left behind, no half of them works on.
TEST(LoaderPoolDeathTest, SaysThatAThreadCannotStart) {
  const auto start = [] {
    rlimit limit{};
    limit.rlim_cur = limit.rlim_max = rlim_t{1} << 30;  // stacks of 8 MB: about a hundred
    if (::setrlimit(RLIMIT_AS, &limit) != 0) std::exit(3);
    const ConstructedDataset dataset(40, {1, 8, 8});
    const Preprocessing plain{.mean = {0}, .deviation = {1}};
    try {
      const Loader loader(dataset, {.size = 40}, plain, {.batch_size = 4, .threads = 1000}, 0);
    } catch (const std::runtime_error& error) {
      std::fputs(error.what(), stderr);
      std::exit(0);
    }
    std::exit(4);
  };
  EXPECT_EXIT(
      start(), testing::ExitedWithCode(0), "\\[data\\] cannot start thread [0-9]+ of 1000 \\(");
}

TEST(LoaderPool, SizesThatDifferNeedACrop) {
  const EncodedDataset dataset(10);
  const Preprocessing plain{.mean = {0, 0, 0}, .deviation = {1, 1, 1}};
  EXPECT_THROW(pool_pass(dataset, {.batch_size = 5}, plain), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::data
