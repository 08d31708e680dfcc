#include "data/inflated_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "data/cache_folder.h"
#include "data/mapped_file.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"

namespace dimred::data {
namespace {

namespace fs = std::filesystem;

constexpr auto place = "gz";
constexpr std::uint64_t largest_ratio = 100, largest_surplus = 64 << 20;

/// Reads plain and gz files alike.
class GzFile {
 public:
  explicit GzFile(fs::path path)
      : path_(std::move(path)), file_(gzopen(path_.c_str(), "rb"), gzclose_r) {
    require_environment(file_ != nullptr, place, path_.string(), ": ", std::strerror(errno));
    gzbuffer(file_.get(), 1 << 18);
  }

  /// Up to out.size() bytes; fewer only at the end of a sound file.
  std::size_t read(std::span<std::uint8_t> out) {
    std::size_t done = 0;
    while (done < out.size()) {
      const int got =
          gzread(file_.get(), out.data() + done, static_cast<unsigned>(out.size() - done));
      int code = Z_OK;
      const char* text = gzerror(file_.get(), &code);
      require_environment(got >= 0 && (code == Z_OK || code == Z_STREAM_END),
                          place,
                          path_.string(),
                          ", offset ",
                          gzoffset(file_.get()),
                          ": needs a complete, undamaged file, received ",
                          code == Z_ERRNO ? std::strerror(errno) : text);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

 private:
  fs::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

void inflate_into(const fs::path& file, std::uint64_t compressed, const fs::path& copy) {
  GzFile in(file);
  AtomicFile out(copy);
  std::vector<std::uint8_t> part(1 << 20);
  std::uint64_t size = 0;
  for (std::size_t got = in.read(part); got > 0; got = in.read(part)) {
    size += got;
    require_environment(size <= largest_ratio * compressed + largest_surplus,
                        place,
                        file.string(),
                        ": needs to hold at most ",
                        largest_ratio,
                        " times its ",
                        compressed,
                        " bytes, received more");
    out.append(std::as_bytes(std::span(part).first(got)));
  }
  out.commit();
}

std::string short_digest(std::string_view text) {
  return digest(std::as_bytes(std::span(text))).substr(0, 16);
}

}  // namespace

fs::path inflated(const fs::path& file, const fs::path& cache) {
  const MappedFile mapped(file);
  const auto bytes = mapped.bytes();
  if (bytes.size() < 2 || bytes[0] != 0x1F || bytes[1] != 0x8B) return file;
  const auto folder = cache_folder(file.parent_path(), cache);
  require_environment(!folder.empty(),
                      place,
                      file.string(),
                      ": needs a folder for its decompressed copy; name one with --data_cache");
  const auto identity = mapped.identity();
  const auto prefix =
      "inflated-" + short_digest(fs::absolute(file).lexically_normal().string()) + '-';
  const auto name =
      prefix + short_digest(concat(identity.size, ' ', identity.modified, ' ', identity.sample));
  const auto copy = folder / name;
  if (fs::is_regular_file(copy)) return copy;
  const CacheLock lock(folder);
  if (fs::is_regular_file(copy)) return copy;
  for (const auto& item : fs::directory_iterator(folder)) {  // of the file as it was before
    if (item.path().filename().string().starts_with(prefix)) fs::remove(item.path());
  }
  inflate_into(file, identity.size, copy);
  return copy;
}

std::vector<std::uint8_t> first_bytes(const fs::path& file, std::size_t count) {
  require(fs::is_regular_file(file), "file", "'", file.string(), "' needs to be a regular file");
  GzFile in(file);
  std::vector<std::uint8_t> bytes(count);
  bytes.resize(in.read(bytes));
  return bytes;
}

}  // namespace dimred::data
