#include "data/inflated_file.h"

#include "data/cache_folder.h"
#include "data/gz_file.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/mapped_file.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

void inflate_into(const fs::path& file, std::uint64_t compressed, const fs::path& copy) {
  GzFile in(file, "gz");
  AtomicFile out(copy);
  std::vector<std::uint8_t> part(1 << 20);
  std::uint64_t size = 0;
  for (std::size_t got = in.read(part); got > 0; got = in.read(part)) {
    size += got;
    require_environment(size <= largest_ratio * compressed + largest_surplus,
                        "[gz] {}: the decompressed file is more than {} times as large as the {} "
                        "compressed bytes; if you trust this file, decompress it with gunzip",
                        file,
                        largest_ratio,
                        compressed);
    out.append(std::span(part).first(got));
  }
  out.commit();
}

bool is_gz(Bytes bytes) { return bytes.size() >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B; }

std::string short_digest(std::string_view text) { return digest(text).substr(0, 16); }

}  // namespace

fs::path inflated(const fs::path& file, const fs::path& cache) {
  const MappedFile mapped(file);
  if (!is_gz(mapped.bytes())) return file;
  const auto folder = cache_folder(file.parent_path(), cache);
  require_environment(!folder.empty(),
                      "[gz] {}: found no writable folder for the decompressed copy; give a folder "
                      "with --data_cache",
                      file);
  const auto identity = mapped.identity();
  const auto prefix =
      "inflated-" + short_digest(fs::absolute(file).lexically_normal().string()) + '-';
  const auto name = prefix + short_digest(formatted(
                                 "{} {} {}", identity.size, identity.modified, identity.sample));
  auto copy = folder / name;
  if (fs::is_regular_file(copy)) return copy;
  const CacheLock lock(folder);
  if (fs::is_regular_file(copy)) return copy;
  for (const auto& item : fs::directory_iterator(folder)) {  // of the file as it was before
    if (item.path().filename().string().starts_with(prefix)) fs::remove(item.path());
  }
  inflate_into(file, identity.size, copy);
  return copy;
}

void inflate_in_place(const fs::path& file, const std::string& name) {
  const MappedFile mapped(file);
  if (!is_gz(mapped.bytes())) return;
  try {
    inflate_into(file, mapped.bytes().size(), file);
  } catch (const std::runtime_error& error) {
    fail_environment("[gz] {}: {}", name, error.what());
  }
}

std::vector<std::uint8_t> first_bytes(const fs::path& file, std::size_t count) {
  require(fs::is_regular_file(file), "[file] '{}' needs to be a regular file", file);
  GzFile in(file, "gz");
  std::vector<std::uint8_t> bytes(count);
  bytes.resize(in.read(bytes));
  return bytes;
}

}  // namespace dimred::data
