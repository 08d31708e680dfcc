#include "commands/device_memory.h"

#include <gtest/gtest.h>

namespace dimred::commands {
namespace {

// torch's own text (c10/cuda/CUDACachingAllocator.cpp), shortened at the end.
constexpr auto message =
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.50 GiB is free. Process 1 has 70 GiB memory in use. If reserved but unallocated "
    "memory is large try setting PYTORCH_CUDA_ALLOC_CONF\nframe #0";

TEST(MemoryAdvice, SaysWhatWasNeededAndTheOptionsThatLowerIt) {
  EXPECT_EQ(memory_advice(message, "evaluate"),
            "[device] out of memory: Tried to allocate 20.00 GiB. GPU 0 has a total capacity of "
            "79.11 GiB of which 1.50 GiB is free; lower --batch_size");
  const auto first = memory_advice(message, "stage1");
  EXPECT_NE(first.find("--gradient_accumulation"), std::string::npos);
  EXPECT_EQ(first.find("n_component"), std::string::npos);
  EXPECT_NE(memory_advice(message, "stage2").find("n_component"), std::string::npos);
}

TEST(MemoryAdvice, KeepsTheFirstLineOfAnotherText) {
  EXPECT_EQ(memory_advice("no memory at all\nframe", "verify"),
            "[device] out of memory: no memory at all; lower --batch_size");
}

// The whole of it, as torch 2.11 writes it.
constexpr auto whole =
    "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.11 GiB of "
    "which 1.50 GiB is free. Including non-PyTorch memory, this process has 77.60 GiB memory in "
    "use. Of the allocated memory 76.00 GiB is allocated by PyTorch, with 2.00 GiB allocated in "
    "private pools (e.g., CUDA Graphs), and 512.00 MiB is reserved by PyTorch but unallocated. If "
    "reserved but unallocated memory is large try";

TEST(MemoryAdvice, SaysHowManySamplesCanFitAtMost) {
  // (76 + 1.5 + 0.5) / (76 + 20) = 0.8125
  EXPECT_EQ(most_samples(whole, 256), 208);
  EXPECT_NE(memory_advice(whole, "stage1", 256)
                .find("1.50 GiB is free; a pass has 256 samples, but at most 208 can fit; "
                      "lower --batch_size"),
            std::string::npos);
  EXPECT_EQ(memory_advice(whole, "stage1").find("samples"), std::string::npos);
}

TEST(MemoryAdvice, CountsNoSamplesWhereTheNumbersDoNotSayIt) {
  EXPECT_EQ(most_samples(message, 256), std::nullopt);
  EXPECT_EQ(most_samples("", 256), std::nullopt);
  EXPECT_EQ(most_samples("Tried to allocate", 256), std::nullopt);
  EXPECT_EQ(most_samples("Tried to allocate 1.00 MiB of which 2.00 MiB is free. Of the allocated "
                         "memory 1.00 GiB is allocated by PyTorch",
                         256),
            std::nullopt);
}

TEST(MemoryShortage, IsWhatAllocatorsAndLibrariesSayOfIt) {
  for (const auto* text : {whole,
                           "CUDA error: out of memory\nCUDA kernel errors might be",
                           "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`",
                           "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"})
    EXPECT_TRUE(is_memory_shortage(text)) << text;
  EXPECT_FALSE(is_memory_shortage("CUDA error: an illegal memory access was encountered"));
}

}  // namespace
}  // namespace dimred::commands
