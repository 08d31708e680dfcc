#include <gtest/gtest.h>

#include "commands/run.h"

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

}  // namespace
}  // namespace dimred::commands
