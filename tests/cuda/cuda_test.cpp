#include "cuda/cuda.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace dimred::cuda {
namespace {

namespace fs = std::filesystem;

fs::path libraries() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib";
}

#ifdef DIMRED_WITH_CUDA_LIBRARY
/// In a process of its own: PyTorch asks once whether it has a part for CUDA.
TEST(Library, GivesPyTorchItsPartAndUsOurFunctions) {
  const auto loaded_well = [] {
    const auto loaded = load(libraries() / "libdimred_cuda.so");
    const auto* functions = loaded.functions;
    return !loaded.failed && loaded.absence.empty() && functions != nullptr &&
           functions->device_graphs != nullptr &&
           (functions->project == nullptr) == (functions->advance == nullptr) &&
           at::detail::getCUDAHooks().hasCUDART();
  };
  EXPECT_EXIT(std::_Exit(loaded_well() ? 0 : 1), testing::ExitedWithCode(0), "");
}
#endif

TEST(Library, IsThereWhereTheDriverIs) {
#ifdef DIMRED_WITH_CUDA_LIBRARY
  const bool expected = ::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
#else
  const bool expected = false;
#endif
  EXPECT_EQ(library().functions != nullptr, expected);
  EXPECT_EQ(library().absence.empty(), expected);
  EXPECT_FALSE(library().failed);
  EXPECT_EQ(at::detail::getCUDAHooks().hasCUDART(), expected);
}

TEST(Library, SaysWhyItCannotBeLoaded) {
  const auto missing = load("/nowhere/libdimred_cuda.so");
  EXPECT_TRUE(missing.failed);
  EXPECT_EQ(missing.functions, nullptr);
  EXPECT_NE(missing.absence.find("/nowhere/libdimred_cuda.so: cannot open"), std::string::npos)
      << missing.absence;
  const auto other = load(libraries() / "libdimred_pca.so");
  EXPECT_TRUE(other.failed);
  EXPECT_NE(other.absence.find("libdimred_pca.so is of another version"), std::string::npos)
      << other.absence;
}

}  // namespace
}  // namespace dimred::cuda
