#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <regex>

#include "tests/pca/matrices.h"

// A process that also holds libtorch has another dsyevr_ (MKL's). These stand for it: if the
// library's calls could be taken over, the linker would export these for it and a fit would abort.
extern "C" {
void dsyevr_() { std::abort(); }
void dpotrf_() { std::abort(); }
void dtrtrs_() { std::abort(); }
void dgemm_() { std::abort(); }
void LAPACKE_dsyevr() { std::abort(); }
}

namespace dimred::pca {
namespace {

std::vector<std::string> symbols(const std::string& selection) {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&random_walk_ratio), &info) == 0) return {};
  const std::string command =
      "nm -D -C " + selection + " '" + std::filesystem::canonical(info.dli_fname).string() + "'";
  std::vector<std::string> names;
  FILE* pipe = ::popen(command.c_str(), "r");
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe) != nullptr) names.emplace_back(line.data());
  return ::pclose(pipe) == 0 ? names : std::vector<std::string>{};
}

TEST(PrivateBlas, ExportsOurNamesOnly) {
  const std::vector<std::string> names = symbols("--defined-only");
  ASSERT_GE(names.size(), 8U);
  const std::regex ours(
      "[0-9a-f]+ T dimred::pca::([A-Z][A-Za-z]+::)?[A-Za-z_]+(\\[abi:cxx11\\])?\\(.*\n");
  for (const std::string& name : names) EXPECT_TRUE(std::regex_match(name, ours)) << name;
}

TEST(PrivateBlas, NeedsNoneFromOutside) {
  const std::vector<std::string> names = symbols("--undefined-only");
  ASSERT_GE(names.size(), 8U);
  const std::regex blas("gemm|syrk|syev|potrf|trtrs|cblas|LAPACK|openblas", std::regex::icase);
  for (const std::string& name : names) EXPECT_FALSE(std::regex_search(name, blas)) << name;
}

TEST(PrivateBlas, IsNotTakenOverByOtherDefinitions) {
  const TemporaryFolder folder;
  const auto source = testing::source_of(testing::random_matrix(8, 5000, 1));
  EXPECT_EQ(fit(*source, testing::options_of(4), folder / "p.npy").header.components, 4);
}

TEST(PrivateBlas, StartsNoThreads) {
  const TemporaryFolder folder;
  FitOptions options = testing::options_of(60);
  options.threads = 1;
  fit(*testing::source_of(testing::random_matrix(150, 2000, 2)), options, folder / "p.npy");
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  EXPECT_EQ(std::distance(begin(tasks), end(tasks)), 1);
}

/// Leaves this process `bytes` more of address space than it has.
void limit_memory(rlim_t bytes) {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * ::sysconf(_SC_PAGESIZE) + bytes;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

// OpenBLAS would ask for its buffer again and again.
TEST(PrivateBlasDeathTest, SaysThatThereIsNoMemoryForABuffer) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process in which nobody has called it yet
  const auto fit_within = [](rlim_t bytes) {
    const auto source = testing::source_of(testing::random_matrix(8, 5000, 1));
    std::vector<float> matrix(4 * 5000);
    auto options = testing::options_of(4);
    options.threads = 1;
    limit_memory(bytes);
    ::alarm(60);
    try {
      fit_in_memory(*source, options, matrix);
    } catch (const std::bad_alloc&) {
      std::exit(3);
    }
    std::exit(0);
  };
  EXPECT_EXIT(fit_within(rlim_t{64} << 20), ::testing::ExitedWithCode(3), "");
  EXPECT_EXIT(fit_within(rlim_t{512} << 20), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dimred::pca
