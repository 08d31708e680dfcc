#include "engine/device/device.h"

#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "support/formatted.h"
#include "tests/tools/temporary_folder.h"

namespace dimred::engine {
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
  EXPECT_EQ(text, "[device] needs auto, cpu, cuda or cuda:N, received tpu");
}

TEST(Device, AnOrdinalIsOneOfThose) {
  EXPECT_EQ(cuda_device("cuda:1", 2), torch::Device("cuda:1"));
  EXPECT_EQ(cuda_device("cuda", 2, /*local_rank=*/5), torch::Device("cuda:1"));
  for (const std::string index : {"2", "99", "128", "255", "256", "257"}) {
    const auto text = thrown<std::runtime_error>([&] { cuda_device("cuda:" + index, 2); });
    EXPECT_EQ(text,
              formatted("[device] the CUDA device number {} does not exist; the number of devices "
                        "is 2, and numbers begin at 0; received --device cuda:{}",
                        index,
                        index));
  }
}

TEST(Device, AnOldDriverIsNamedInOneLineWithoutLinks) {
  // torch's own text (c10/cuda/CUDAFunctions.cpp).
  EXPECT_EQ(reason_of_warning(
                "CUDA initialization: The NVIDIA driver on your system is too old (found version "
                "11040). Please update your GPU driver by downloading and installing a new version "
                "from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: "
                "https://pytorch.org to install a PyTorch version that has been compiled with your "
                "version of the CUDA driver.",
                "13.0"),
            "The NVIDIA driver on your system is too old (found version 11040); torch needs a "
            "driver for CUDA 13.0");
  EXPECT_EQ(reason_of_warning("CUDA initialization: Unexpected error from cudaGetDeviceCount(). "
                              "Error 802: system not yet initialized\nframe",
                              "13.0"),
            "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized");
  EXPECT_EQ(reason_of_warning("", "13.0"), "");
}

/// Writes to the same place in any order have no deterministic form: torch refuses them.
TEST(Deterministic, RefusesWhatIsNot) {
  const auto put = [] {
    torch::zeros({4}).put_(torch::tensor({1, 1}), torch::tensor({2.F, 3.F}), /*accumulate=*/false);
  };
  EXPECT_NO_THROW(put());
  make_deterministic();
  EXPECT_THROW(put(), c10::Error);
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace dimred::engine
