#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>

#include "data/encode.h"
#include "support/digest.h"
#include "tests/fuzz/fuzz.h"

#ifdef __has_feature
#define DIMRED_FEATURE(name) __has_feature(name)
#else
#define DIMRED_FEATURE(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || DIMRED_FEATURE(address_sanitizer)
// From sanitizer/allocator_interface.h, which GCC does not bring; the names are the sanitizer's.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*,
                                                                           std::size_t),
                                                         void (*on_free)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void* start);
// NOLINTEND(bugprone-reserved-identifier)
#else
#define DIMRED_COUNTS_NEW  // the undefined-behaviour sanitizer has no hooks
#endif

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

constexpr auto unlimited = std::numeric_limits<std::int64_t>::max();

// Bytes that are allocated, by all threads; at the input's beginning; and how many may be.
std::atomic<std::int64_t> live = 0, base = 0, limit = unlimited;

void on_malloc(const volatile void* /*start*/, std::size_t size) {
  const auto held = live += static_cast<std::int64_t>(size);
  if (held <= limit) return;
  std::fprintf(stderr,
               "needs at most %lld bytes of memory at once, received %lld\n",
               static_cast<long long>(limit - base),
               static_cast<long long>(held - base));
  __builtin_trap();
}

#ifdef DIMRED_COUNTS_NEW
void on_free(const void* start) {
  live -= static_cast<std::int64_t>(::malloc_usable_size(const_cast<void*>(start)));
}
#else
void on_free(const volatile void* start) {
  live -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(start));
}

[[maybe_unused]] const int hooked = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
#endif

}  // namespace

std::vector<std::uint8_t> with_right_digest(std::span<const std::uint8_t> input) {
  constexpr std::size_t digest_at = 12, body_at = 44;
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  if (bytes.size() < body_at) return bytes;
  const auto right = digest(std::as_bytes(std::span(bytes).subspan(body_at)));
  std::copy(right.begin(), right.end(), bytes.begin() + digest_at);
  return bytes;
}

void allow_memory(std::int64_t bytes) { limit = base + bytes; }

int parse_within_limit(const std::uint8_t* data, std::size_t size) {
  base = live.load();
  allow_memory(static_cast<std::int64_t>(size) + memory_surplus);
  const int code = parse(data, size);
  limit = unlimited;
  return code;
}

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

#ifdef DIMRED_COUNTS_NEW
namespace {
void* counted(void* start) {
  if (start == nullptr) throw std::bad_alloc();
  on_malloc(start, ::malloc_usable_size(start));
  return start;
}
void uncounted(void* start) noexcept {
  if (start != nullptr) on_free(start);
  std::free(start);
}
}  // namespace
#endif

}  // namespace dimred::fuzz

#ifdef DIMRED_COUNTS_NEW
void* operator new(std::size_t size) { return dimred::fuzz::counted(std::malloc(size)); }
void operator delete(void* start) noexcept { dimred::fuzz::uncounted(start); }
void operator delete(void* start, std::size_t) noexcept { dimred::fuzz::uncounted(start); }
#endif

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return dimred::fuzz::parse_within_limit(data, size);
}

// A fuzzer that is told a folder fills it with its seeds first.
extern "C" int LLVMFuzzerInitialize(int* /*count*/, char*** /*values*/) {
  if (const char* folder = std::getenv("DIMRED_SEEDS")) dimred::fuzz::write_seeds(folder);
  return 0;
}
