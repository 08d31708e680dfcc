#include "cuda/cuda.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace dimred::cuda {
namespace {

namespace fs = std::filesystem;

fs::path libraries() {
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "lib";
}

TEST(Library, GivesPyTorchItsPartAndUsOurFunctions) {
  const auto file = libraries() / "libdimred_cuda.so";
  if (!fs::exists(file)) GTEST_SKIP() << "this torch is without CUDA";
  const auto loaded = load(file);
  ASSERT_FALSE(loaded.failed) << loaded.absence;
  ASSERT_NE(loaded.functions, nullptr);
  EXPECT_EQ(loaded.absence, "");
  EXPECT_NE(loaded.functions->device_graphs, nullptr);
  EXPECT_EQ(loaded.functions->project == nullptr, loaded.functions->advance == nullptr);
  EXPECT_TRUE(at::detail::getCUDAHooks().hasCUDART());
}

TEST(Library, IsThereWhereTheDriverIs) {
  const bool driver = ::dlopen("libcuda.so.1", RTLD_LAZY) != nullptr;
  const bool built = fs::exists(libraries() / "libdimred_cuda.so");
  EXPECT_EQ(library().functions != nullptr, driver && built);
  EXPECT_EQ(library().absence.empty(), driver && built);
  EXPECT_EQ(at::detail::getCUDAHooks().hasCUDART(), driver && built);
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
