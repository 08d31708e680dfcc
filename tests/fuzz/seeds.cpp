#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "data/encode.h"
#include "tests/fuzz/fuzz.h"

namespace dimred::fuzz {
namespace {

std::string pixels(const data::ImageShape& shape) {
  std::string text;
  for (std::int64_t i = 0; i < shape.size(); ++i) text += static_cast<char>(i * 37 >> 2);
  return text;
}

std::span<const std::uint8_t> as_numbers(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace

std::string small_jpeg(bool grey) {
  const data::ImageShape shape{grey ? 1 : 3, 20, 17};
  return data::to_jpeg(as_numbers(pixels(shape)), shape, grey ? 95 : 60);
}

std::string small_png() {
  const data::ImageShape shape{3, 9, 7};
  return data::to_png(as_numbers(pixels(shape)), shape);
}

void write_seeds(const std::string& folder) {
  std::size_t number = 0;
  for (const auto& seed : seeds())
    std::ofstream(folder + "/seed-" + std::to_string(number++), std::ios::binary) << seed;
}

Folder::Folder() : path("/dev/shm/dimred_fuzz_" + std::to_string(::getpid())) {
  std::filesystem::create_directory(path);
}

Folder::~Folder() {
  std::error_code none;
  std::filesystem::remove_all(path, none);
}

void Folder::write(const std::string& name, const std::string& content) const {
  std::ofstream(path + '/' + name, std::ios::binary) << content;
}

std::string file_with(std::span<const std::uint8_t> bytes) {
  static const int descriptor = ::memfd_create("input", MFD_CLOEXEC);
  if (::ftruncate(descriptor, 0) != 0 ||
      ::pwrite(descriptor, bytes.data(), bytes.size(), 0) != std::ssize(bytes))
    std::abort();
  return "/proc/self/fd/" + std::to_string(descriptor);
}

}  // namespace dimred::fuzz

// A fuzzer that is told a folder fills it with its seeds first.
extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*values*/) {
  if (const char* folder = std::getenv("DIMRED_SEEDS")) dimred::fuzz::write_seeds(folder);
  return 0;
}
