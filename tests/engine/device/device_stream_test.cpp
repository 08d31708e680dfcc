#include "engine/device/device_stream.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/utils.h>

#include <cstdlib>
#include <thread>

namespace dimred::engine {
namespace {

TEST(HostCopy, HoldsWhatTheValuesWere) {
  for (const auto copy : {read_back, copy_on_side_stream}) {
    auto values = torch::arange(5, torch::kFloat64);
    const auto copied = copy(values);
    values.zero_();
    ASSERT_TRUE(copied.exists());
    EXPECT_TRUE(torch::equal(copied.get(), torch::arange(5, torch::kFloat64)));
  }
  EXPECT_FALSE(HostCopy().exists());
}

class DeviceStreams : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "needs a CUDA device";
  }
};

/// The values come late, are overwritten at once, and so is the memory of what is freed.
TEST_F(DeviceStreams, ACopyWaitsForItsValuesAndKeepsThem) {
  const auto large = torch::rand({4000, 4000}, torch::kCUDA);
  for (const auto copy : {read_back, copy_on_side_stream}) {
    auto values = torch::ones({1 << 20}, torch::kCUDA);
    values.mul_(large.matmul(large).matmul(large).sum() * 0 + 3);
    const auto copied = copy(values);
    values.zero_();
    for (int i = 0; i < 4; ++i) torch::full({1 << 20}, i, torch::kCUDA);
    EXPECT_TRUE(torch::equal(copied.get(), torch::full({1 << 20}, 3.0F)));
    EXPECT_TRUE(copied.get().is_pinned());
  }
}

TEST_F(DeviceStreams, AreNotThePresentOne) {
  const torch::Device device(torch::kCUDA, 0);
  const auto out = copy_stream(device, CopyDirection::to_device);
  const auto home = copy_stream(device, CopyDirection::to_host);
  EXPECT_EQ(out, copy_stream(device, CopyDirection::to_device));
  EXPECT_NE(out, home);
  EXPECT_NE(out, at::accelerator::getCurrentStream(0));
  EXPECT_NE(home, at::accelerator::getCurrentStream(0));
}

/// A context takes half a gigabyte of a device on which nothing of this process is.
TEST_F(DeviceStreams, LeaveOtherDevicesAlone) {
  if (torch::cuda::device_count() < 2) GTEST_SKIP() << "needs two CUDA devices";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto look = [] {  // in a process of its own: other tests use the first device
    const auto values = torch::ones({100}, torch::Device(torch::kCUDA, 1));
    std::jthread([copied = copy_on_side_stream(values)] { copied.get(); }).join();
    const bool arrived = read_back(values).get().sum().item<float>() == 100;
    std::_Exit(arrived && !at::detail::getCUDAHooks().hasPrimaryContext(0) ? 0 : 1);
  };
  EXPECT_EXIT(look(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dimred::engine
