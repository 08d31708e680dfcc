#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

// Functions that the fuzz targets share. A target may end by an exception of ours; anything else it
// throws, crashes with, or holds in memory beyond the limit is a fault.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace dimred::fuzz {

/// The target: parses the input. Returns 0. Ends the process when more than memory_surplus + the
/// input's bytes are allocated at once, or what allow_memory says.
int parse(const std::uint8_t* data, std::size_t size);

constexpr std::int64_t memory_surplus = 64'000'000;

/// Another limit, in bytes, for the rest of this input.
void allow_memory(std::int64_t bytes);

/// The body of LLVMFuzzerTestOneInput.
int parse_within_limit(const std::uint8_t* data, std::size_t size);

/// Small sound inputs of the target's format, which mutations begin with.
std::vector<std::string> seeds();

/// Writes them as files.
void write_seeds(const std::string& folder);

// Sound files for seeds.
std::string small_jpeg(bool grey = false);
std::string small_png();

/// The input as the bytes of an index (magic, version, digest of the rest) whose digest is right.
std::vector<std::uint8_t> with_right_digest(std::span<const std::uint8_t> input);

/// The input as a file that lives in memory; the same path every time.
std::string file_with(std::span<const std::uint8_t> bytes);

/// A folder in memory for parsers that want files with names; gone with it.
struct Folder {
  std::string path;
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void write(const std::string& name, const std::string& content) const;
};

/// Runs `parse`; bears the exceptions that damaged input may throw.
template <class Parse>
void bear_errors(const Parse& parse) {
  try {
    parse();
  } catch (const std::runtime_error&) {
    // the environment's: damaged
  } catch (const std::invalid_argument&) {
    // the caller's: of another kind
  }
}

}  // namespace dimred::fuzz
