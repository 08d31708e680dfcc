#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "engine/input/batches.h"
#include "engine/passes/buckets.h"
#include "engine/passes/gradient.h"
#include "models/network.h"
#include "run/signals.h"
#include "run/state.h"
#include "tests/tools/gloo_ranks.h"
#include "tests/tools/planes_dataset.h"
#include "tests/tools/step_bytes.h"

namespace dimred::run {
namespace {

/// Images of random pixels, labelled in turn.
struct RandomData final : data::PlanesDataset {
  RandomData() : PlanesDataset({1, 28, 28}, 10) {}
  std::int64_t size() const override { return 60; }
  data::Sample read(std::int64_t index, std::vector<std::uint8_t>& scratch) const override {
    scratch.assign(784, static_cast<std::uint8_t>(index * 37));
    return sample(scratch, index % 10);
  }
  std::string description() const override { return "random"; }
};

TEST(Wire, OfAStageOneStepIsWhatTheScalingModelPredicts) {
  std::mutex building;
  on_gloo_ranks(3, [&](distributed::TensorCommunicator& communicator) {
    engine::Setup setup;  // testing::Test has a name like it
    {
      const std::lock_guard lock(building);
      setup.model.objective =
          models::classifier(models::make_network("resnet20", {1, 28, 28}, 10), {});
      setup.model.flat =
          models::flatten(*setup.model.objective, layout::MemoryFormat::contiguous, torch::kCPU);
    }
    setup.communicator = {&communicator, [](auto*) {}};
    setup.data.train = std::make_shared<RandomData>();
    setup.data.preprocessing = {.mean = {0.4}, .deviation = {0.3}};
    setup.data.global_batch_size = 6;
    engine::GradientBuckets buckets(*setup.model.objective,
                                    setup.model.flat,
                                    communicator,
                                    {.bucket_mb = 0.1, .first_bucket_mb = 0.01});
    data::Loader loader(*setup.data.train,
                        {.seed = 1, .size = 60},
                        setup.data.preprocessing,
                        engine::loader_options(setup),
                        0);
    auto batch = *loader.next();
    engine::start_loss_and_gradient(
        setup, engine::to_minibatch(setup.model, batch), batch.global_count, {}, &buckets)
        .get();
    buckets.finish();
    stop_agreed(communicator);
    const bytes_sent::StepShape step{.ranks = 3,
                                     .columns = setup.model.flat.layout.memory_size,
                                     .buffers = setup.model.flat.buffers.numel()};
    std::vector<std::int64_t> sizes;
    for (const auto& columns : engine::bucket_columns(setup.model.flat.layout,
                                                      {.bucket_mb = 0.1, .first_bucket_mb = 0.01}))
      sizes.push_back(columns.size());
    EXPECT_GT(sizes.size(), 3U);
    EXPECT_EQ(communicator.bytes_sent(), bytes_sent::stage1_bytes(step, sizes));
  });
}

class EqualWeights : public testing::TestWithParam<bool> {};

TEST_P(EqualWeights, NamesTheRankThatWentApart) {
  const bool in_buffers = GetParam();
  on_gloo_ranks(3, [&](distributed::TensorCommunicator& communicator) {
    engine::Setup setup;  // testing::Test has a name like it
    setup.communicator = {&communicator, [](auto*) {}};
    setup.model.flat.layout = layout::make_layout({{"w", {10}}});
    setup.model.flat.weights = torch::ones({setup.model.flat.layout.memory_size});
    setup.model.flat.buffers = torch::ones({4});
    require_equal_weights(setup, {.step = 5});
    auto& vector = in_buffers ? setup.model.flat.buffers : setup.model.flat.weights;
    if (communicator.rank() == 2) vector[3] += 1e-6;
    EXPECT_THAT([&] { require_equal_weights(setup, {.step = 6}); },
                testing::ThrowsMessage<std::runtime_error>(
                    testing::HasSubstr("rank 2 differ from those of rank 0 after step 6")));
  });
}

INSTANTIATE_TEST_SUITE_P(Vector, EqualWeights, testing::Bool(), [](const auto& one) {
  return one.param ? "buffers" : "weights";
});

}  // namespace
}  // namespace dimred::run
