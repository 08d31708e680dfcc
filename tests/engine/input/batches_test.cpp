#include "engine/input/batches.h"

#include <gtest/gtest.h>

#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

/// Random pixels in any shape.
class Noise final : public data::PlanesDataset {
 public:
  Noise(std::int64_t size, data::ImageShape shape) : PlanesDataset(shape, 7), size_(size) {
    RandomStream stream(4, RandomPurpose::initialization, 0, 0);
    for (std::int64_t i = 0; i < size * shape.size(); ++i)
      pixels_.push_back(static_cast<std::uint8_t>(stream.below(256)));
  }
  std::int64_t size() const override { return size_; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    if (index == bad) throw std::runtime_error("no image");
    const auto length = static_cast<std::size_t>(image_shape.size());
    auto read = sample(std::span(pixels_).subspan(static_cast<std::size_t>(index) * length, length),
                       index % 7);
    if (index == damaged) read.damage = "rows are missing";
    return read;
  }
  std::string description() const override { return "noise"; }

  std::int64_t bad = -1, damaged = -1;  // samples

 private:
  std::int64_t size_;
  std::vector<std::uint8_t> pixels_;
};

Setup setup_of(data::ImageShape shape, layout::MemoryFormat format) {
  Setup setup;
  setup.communicator = distributed::single_rank();
  setup.data.train = std::make_shared<Noise>(45, shape);
  setup.data.test = std::make_shared<Noise>(11, shape);
  setup.data.image_shape = shape;
  setup.data.preprocessing.seed = 5;
  for (std::int64_t channel = 0; channel < shape.channels; ++channel) {
    setup.data.preprocessing.mean.push_back(0.3 + 0.1 * static_cast<double>(channel));
    setup.data.preprocessing.deviation.push_back(0.2);
  }
  setup.model.memory_format = format;
  setup.data.global_batch_size = 10;
  setup.seed = 1;
  return setup;
}

struct Case {
  data::ImageShape shape;
  layout::MemoryFormat format;
  std::int64_t pad;
  bool flip;
};

class OnDevice : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(
    All,
    OnDevice,
    testing::Values(Case{{1, 7, 5}, layout::MemoryFormat::contiguous, 0, false},
                    Case{{1, 7, 5}, layout::MemoryFormat::channels_last, 2, true},
                    Case{{3, 6, 6}, layout::MemoryFormat::contiguous, 3, false},
                    Case{{3, 6, 9}, layout::MemoryFormat::channels_last, 0, true},
                    Case{{3, 5, 8}, layout::MemoryFormat::channels_last, 4, true},
                    Case{{3, 5, 8}, layout::MemoryFormat::channels_last, 0, false}));

/// Everything that make_batches() gives from now on.
std::vector<DeviceBatch> all_of(const Setup& setup,
                                const data::LoaderOptions& options,
                                std::int64_t epoch,
                                std::int64_t first_step) {
  std::vector<DeviceBatch> all;
  const auto order = training_order(setup);
  const auto batches = make_batches(
      setup, *setup.data.train, order, setup.data.preprocessing, options, epoch, first_step);
  while (auto batch = batches->next()) {
    if (all.size() % 3 != 0) batches->prefetch();
    all.push_back(std::move(*batch));
  }
  EXPECT_EQ(batches->report().batches, std::ssize(all));
  return all;
}

TEST_P(OnDevice, BatchesAreThoseOfTheLoaderBitForBit) {
  const auto& [shape, format, pad, flip] = GetParam();
  const auto memory = format == layout::MemoryFormat::channels_last
                          ? torch::MemoryFormat::ChannelsLast
                          : torch::MemoryFormat::Contiguous;
  auto loaded = setup_of(shape, format);
  loaded.data.preprocessing.pad = pad;
  loaded.data.preprocessing.flip = flip;
  auto kept = setup_of(shape, format);
  kept.data.preprocessing = loaded.data.preprocessing;
  keep_on_device(kept, DataOnDevice::yes);
  for (const std::int64_t epoch : {0, 3}) {
    for (const auto& [rank, ranks, first] :
         {std::tuple{0, 1, 0}, {1, 3, 0}, {2, 3, 2}, {5, 7, 1}}) {
      auto options = loader_options(loaded);
      options.rank = rank;
      options.ranks = ranks;
      const auto expected = all_of(loaded, options, epoch, first);
      const auto found = all_of(kept, options, epoch, first);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].count(), expected[i].count());
        EXPECT_EQ(found[i].global_count, expected[i].global_count);
        EXPECT_TRUE(torch::equal(found[i].tensors.images, expected[i].tensors.images));
        EXPECT_TRUE(torch::equal(found[i].tensors.labels, expected[i].tensors.labels));
        EXPECT_TRUE(found[i].tensors.images.is_contiguous(memory));
      }
    }
  }
}

TEST(DataOnDevice, IsLeftToTheLoaderWhereItCannotBe) {
  auto setup = setup_of({1, 8, 8}, layout::MemoryFormat::contiguous);
  keep_on_device(setup, DataOnDevice::automatic);  // no CUDA device
  EXPECT_TRUE(setup.data.on_device.empty());
  const auto reason = [&] {
    return why_not_on_device(*setup.data.train, setup.data.preprocessing, 45 * 64);
  };
  EXPECT_EQ(reason(), "");
  EXPECT_EQ(why_not_on_device(*setup.data.train, setup.data.preprocessing, 45 * 64 - 1),
            "the images have 2880 bytes, more than 2879");
  setup.data.preprocessing.jitter.brightness = 0.1;
  EXPECT_EQ(reason(), "the preprocessing changes the colours");
  setup.data.preprocessing.crop = {.cut = data::CropMode::centre, .size = 4};
  EXPECT_EQ(reason(), "the preprocessing crops the images");
  EXPECT_THROW(keep_on_device(setup, DataOnDevice::yes), std::invalid_argument);
}

TEST(DataOnDevice, ASetWithABadSampleIsLeftToTheLoader) {
  auto setup = setup_of({1, 8, 8}, layout::MemoryFormat::contiguous);
  const auto noise = std::make_shared<Noise>(45, setup.data.image_shape);
  noise->bad = 17;
  setup.data.train = noise;
  setup.data.on_device.push_back(std::make_shared<DeviceSet>(DeviceSet{.set = noise}));
  auto options = loader_options(setup);
  options.bad_sample = data::BadSample::replace;
  const auto make = [&] {
    return make_batches(setup, *noise, training_order(setup), setup.data.preprocessing, options, 0);
  };
  const auto batches = make();
  while (auto batch = batches->next()) batches->recycle(std::move(*batch));
  EXPECT_EQ(batches->report().bad_samples, 1);
  setup.data.on_device.front() = std::make_shared<DeviceSet>(DeviceSet{.set = noise, .must = true});
  EXPECT_THROW(make(), std::runtime_error);
  noise->bad = 0;
  EXPECT_EQ(why_not_on_device(*noise, setup.data.preprocessing, 1 << 20),
            "the first sample is bad: no image");
}

TEST(DataOnDevice, DamagedSamplesAreCountedAndNamed) {
  auto setup = setup_of({1, 8, 8}, layout::MemoryFormat::contiguous);
  const auto noise = std::make_shared<Noise>(45, setup.data.image_shape);
  noise->damaged = 17;
  setup.data.train = noise;
  keep_on_device(setup, DataOnDevice::yes);
  const auto batches = make_batches(
      setup, *noise, training_order(setup), setup.data.preprocessing, loader_options(setup), 0);
  while (batches->next()) {
  }
  const auto report = batches->report();
  EXPECT_EQ(report.damaged_samples, 1);
  ASSERT_EQ(report.messages.size(), 1U);
  EXPECT_EQ(report.messages.front(), noise->origin(17) + ": rows are missing");
}

TEST(DataOnDevice, TheTestSetIsKeptOnceWhereItIsTheTrainingSet) {
  auto setup = setup_of({1, 8, 8}, layout::MemoryFormat::contiguous);
  setup.data.validation = setup.data.test;
  setup.data.test = setup.data.train;
  keep_on_device(setup, DataOnDevice::yes);
  EXPECT_EQ(setup.data.on_device.size(), 2U);
  EXPECT_EQ(setup.data.on_device.front()->set, setup.data.train);
}

}  // namespace
}  // namespace dimred::engine
