#include "stores/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "stores/attempts.h"
#include "stores/listing.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/retry.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// NAME.part, and NAME.part.of, which says whose beginning that is.
class PartFile {
 public:
  explicit PartFile(const fs::path& to)
      : path_(to.string() + ".part"), note_(path_.string() + ".of") {
    descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require(descriptor_ >= 0, "open");
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      close(descriptor_);
      throw std::runtime_error(concat("[stores] another process downloads ", to.string()));
    }
  }
  ~PartFile() { close(descriptor_); }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const fs::path& path() const { return path_; }

  std::int64_t size() const {
    struct stat state {};
    require(fstat(descriptor_, &state) == 0, "fstat");
    return state.st_size;
  }

  /// Keeps what is there if it is the beginning of the file that `note` describes.
  void take_up(const std::string& note, std::int64_t most) {
    std::ostringstream earlier;
    earlier << std::ifstream(note_, std::ios::binary).rdbuf();
    if (earlier.str() == note && size() <= most) return;
    clear();
    write_file_atomically(note_, note);
  }

  void clear() { require(ftruncate(descriptor_, 0) == 0, "ftruncate"); }

  void append(std::span<const std::byte> bytes) {
    for (auto at = size(); !bytes.empty();) {
      const auto written =
          retrying([&] { return pwrite(descriptor_, bytes.data(), bytes.size(), at); });
      require(written > 0, "write");
      at += written;
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void commit(const fs::path& to) {
    require(retrying([&] { return fsync(descriptor_); }) == 0, "fsync");
    fs::rename(path_, to);
    fs::remove(note_);
    sync_folder(to.parent_path());
  }

 private:
  void require(bool done, const char* call) const {
    require_environment(done, "stores", call, ' ', path_.string(), ": ", std::strerror(errno));
  }

  fs::path path_;
  fs::path note_;
  int descriptor_ = -1;
};

}  // namespace

std::int64_t fetch(Store& store,
                   const Found& found,
                   const fs::path& to,
                   const StoreOptions& options) {
  create_folders(to.parent_path());
  const auto& item = found.item;
  PartFile part(to);
  // Without an etag nobody knows whether the beginning is still that file's.
  const bool continues = store.seeks() && !item.etag.empty();
  part.take_up(concat(without_credentials(whole(found.url)),
                      '\n',
                      item.size,
                      '\n',
                      continues ? item.etag : "",
                      '\n'),
               item.size);
  std::int64_t received = 0;
  std::int64_t before = 0;
  auto expected = item;
  if (!found.digest.empty()) expected.etag.clear();  // a digest, which no server knows
  with_attempts(
      options,
      [&] {
        if (!continues) part.clear();
        before = part.size();
        store.read(found.url, expected, before, [&](std::span<const std::byte> bytes) {
          received += std::ssize(bytes);
          part.append(bytes);
        });
        const auto size = part.size();
        const bool right = size == item.size &&
                           (found.digest.empty() || digest_of_file(part.path()) == found.digest);
        if (right) return;
        // What is too long or damaged is of no use; what is too short will be continued.
        if (size >= item.size) {
          part.clear();
          before = 0;
        }
        throw StoreError(
            concat("[stores] ",
                   shown(found.url),
                   size == item.size ? std::string(" differs from its digest")
                                     : concat(" gave ", size, " bytes of ", item.size)),
            true);
      },
      [&] { return continues && part.size() > before; });
  part.commit(to);
  return received;
}

std::int64_t fetch_together(Store& store,
                            const std::vector<std::pair<Found, fs::path>>& files,
                            const StoreOptions& options) {
  constexpr std::size_t most = 100;  // open at a time
  std::int64_t received = 0;
  for (std::size_t begin = 0; begin < files.size(); begin += most) {
    const std::span batch(files.data() + begin, std::min(most, files.size() - begin));
    std::vector<std::unique_ptr<PartFile>> parts;
    std::vector<Url> urls;
    std::vector<std::int64_t> sizes;
    for (const auto& [found, to] : batch) {
      create_folders(to.parent_path());
      parts.push_back(std::make_unique<PartFile>(to));
      parts.back()->take_up("", 0);
      urls.push_back(found.url);
      sizes.push_back(found.item.size);
    }
    with_attempts(options, [&] {
      for (const auto& part : parts) part->clear();
      store.read_all(urls, sizes, [&](std::size_t i, std::span<const std::byte> bytes) {
        received += std::ssize(bytes);
        parts[i]->append(bytes);
      });
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const auto& found = batch[i].first;
        const bool right =
            parts[i]->size() == found.item.size &&
            (found.digest.empty() || digest_of_file(parts[i]->path()) == found.digest);
        if (!right)
          throw StoreError(
              concat("[stores] ", shown(found.url), " differs from its digest or length"), true);
      }
    });
    for (std::size_t i = 0; i < batch.size(); ++i) parts[i]->commit(batch[i].second);
  }
  return received;
}

}  // namespace dimred::stores
