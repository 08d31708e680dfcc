#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <chrono>
#include <thread>

#include "engine/device/pinned_memory.h"
#include "engine/input/batches.h"
#include "support/errors.h"
#include "tests/tools/toy_setup.h"

namespace dimred::engine {
namespace {

/// Black images; one cannot be read.
class OneBad final : public data::PlanesDataset {
 public:
  explicit OneBad(std::int64_t bad) : PlanesDataset({1, 28, 28}, 10), bad_(bad), black_(784) {}
  std::int64_t size() const override { return 96; }
  std::string description() const override { return "one bad"; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& /*scratch*/) const override {
    require_environment(index != bad_, "[toy] no image");
    return sample(black_, 0);
  }

 private:
  std::int64_t bad_;
  std::vector<std::uint8_t> black_;
};

std::unique_ptr<Batches> batches_of(const Setup& setup) {
  const data::Order order{.seed = 1, .size = setup.data.train->size(), .shuffled = false};
  return loaded_batches(setup,
                        std::make_unique<data::Loader>(*setup.data.train,
                                                       order,
                                                       setup.data.preprocessing,
                                                       loader_options(setup),
                                                       0,
                                                       /*first_step=*/1));
}

/// So that there is one to be taken ahead.
void wait_for_the_loader() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

TEST(LoadedBatches, AheadAreTheSameInTheSameOrder) {
  auto setup = toy_setup(models::Precision::float32);
  setup.data.global_batch_size = 10;  // the last of nine has 6
  const auto plain = batches_of(setup), ahead = batches_of(setup);
  for (int i = 0; i < 9; ++i) {
    wait_for_the_loader();
    auto expected = plain->next(), found = ahead->next();
    ASSERT_TRUE(expected && found);
    EXPECT_EQ(found->count(), i == 8 ? 6 : 10);
    EXPECT_EQ(found->global_count, expected->global_count);
    wait_for_the_loader();
    ahead->prefetch();
    ahead->prefetch();      // one is enough
    wait_for_the_loader();  // the present one is not overwritten
    EXPECT_TRUE(torch::equal(found->tensors.images, expected->tensors.images)) << i;
    EXPECT_TRUE(torch::equal(found->tensors.labels, expected->tensors.labels)) << i;
    plain->recycle(std::move(*expected));
    ahead->recycle(std::move(*found));
  }
  EXPECT_FALSE(ahead->next());
  EXPECT_EQ(ahead->report().batches, 9);
}

TEST(LoadedBatches, AFailureComesAfterTheBatchesBefore) {
  auto setup = toy_setup(models::Precision::float32);
  setup.data.train = std::make_shared<OneBad>(35);
  setup.data.global_batch_size = 10;
  const auto ahead = batches_of(setup);
  for (const bool fails : {false, false, true}) {  // batches of 10 to 19, 20 to 29, 30 to 39
    wait_for_the_loader();
    if (fails) {
      EXPECT_THROW(ahead->next(), std::runtime_error);
    } else {
      EXPECT_EQ(ahead->next()->count(), 10);
      wait_for_the_loader();
      ahead->prefetch();
    }
  }
}

class DeviceBatches : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  }
};

/// Each is used behind slow work, while the next one is copied and host buffers go round.
TEST_F(DeviceBatches, AheadAreThoseOfTheHost) {
  auto host = toy_setup(models::Precision::float32);
  auto setup = toy_setup(models::Precision::float32);
  setup.model.device = torch::Device(torch::kCUDA, 0);
  const auto large = torch::rand({4000, 4000}, setup.model.device);
  setup.data.loading.pool = std::make_shared<data::BatchPool>(pinned_memory(setup.model.device));
  for (auto* each : {&host, &setup}) each->data.global_batch_size = 10;
  const auto plain = batches_of(host), ahead = batches_of(setup);
  for (int i = 0; i < 9; ++i) {
    wait_for_the_loader();
    auto expected = plain->next(), found = ahead->next();
    ASSERT_TRUE(expected && found);
    wait_for_the_loader();
    const auto three = large.matmul(large).sum() * 0 + 3;
    const auto images = found->tensors.images * three, labels = found->tensors.labels * three;
    ahead->prefetch();
    if (i != 4) ahead->recycle(std::move(*found));  // that one is dropped
    EXPECT_TRUE(torch::equal(images.cpu(), expected->tensors.images * 3)) << i;
    EXPECT_TRUE(torch::equal(labels.cpu(), expected->tensors.labels * 3)) << i;
  }
}

}  // namespace
}  // namespace dimred::engine
