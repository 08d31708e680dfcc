#include "training/device/device.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "tests/tools/temporary_folder.h"

namespace dimred::training {
namespace {

TEST(Device, AutoIsCudaWhereThereIsOne) {
  const auto device = parse_device("auto", /*local_rank=*/0);
  if (torch::cuda::is_available()) {
    EXPECT_EQ(device, torch::Device("cuda:0"));
  } else {
    EXPECT_EQ(device, torch::Device("cpu"));
  }
}

TEST(Device, AnotherWordIsRefused) {
  const auto text = thrown<std::invalid_argument>([] { parse_device("tpu"); });
  EXPECT_EQ(text, "[training::device] needs auto, cpu, cuda or cuda:N, received tpu");
}

}  // namespace
}  // namespace dimred::training
